#!/usr/bin/env python3
"""Mutation table of the Ascend kernels.

Every flag, barrier, stride, count, offset, bound and condition of a kernel is removed or shifted in
turn, and the AI Core model must notice: by its checker (a rule of the hardware broken) or by the
oracle (a wrong number). A survivor must be listed, with the sentence that proves it equivalent, in
scripts/ascend_mutations_equivalent.txt, or this exits 1.

    scripts/ascend_mutations.py BUILD_DIR [--out TABLE.md] [--kernel lora_linear|lora_linear_310|
                                          vector_baseline|base_linear]

One program holds all mutants of a kernel; the number of the active one is an argument. The edits
only insert text, so that they nest.
"""
import argparse
import collections
import concurrent.futures
import os
import re
import resource
import signal
import subprocess
import sys

# Of the processor's time: the unchanged kernel takes one or two.
SECONDS = 15
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDER = 'lorica/kernels/ascend/'
KERNELS = {
    'lora_linear': ['lora_linear_item.h', 'lora_linear_memory.h', 'lora_linear_l0.h',
                    'lora_linear_loader.h', 'lora_linear_shrink.h', 'lora_linear_expand.h',
                    'lora_linear_sums.h', 'lora_linear_cube.h', 'lora_linear.cpp',
                    'lora_linear_split.cpp'],
    'lora_linear_310': ['lora_linear_310.cpp'],
    'vector_baseline': ['vector_baseline.cpp'],
    'base_linear': ['base_linear.cpp'],
}
# Functions of ours and of AscendC whose arguments are counts, strides and offsets.
CALLS = ('Load', 'Multiply', 'CopyOut',
         'Muls', 'Cast', 'Add', 'Mul', 'Duplicate', 'BlockReduceSum', 'PairReduceSum', 'ReduceSum',
         'DataCopy', 'LocalTensor', 'At', 'InitBuffer')
BYTES = re.compile(r'Bytes|1024|kHalf|kSAt|identity|y_l0|weights_at|_at\b|\bto\b|\* (32|64)\b|kIdentityAt|kS16|kS32|kDelta|kY|kSum|L0C|\* 2\b')


class Mutants:
    def __init__(self):
        self.rows = []  # (file, line, what)

    def new(self, where, what):
        self.rows.append((where[0], where[1], what))
        return len(self.rows)


def match(text, at, opening='(', closing=')'):
    """Index past the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        if text[i] == opening:
            depth += 1
        elif text[i] == closing:
            depth -= 1
            if depth == 0:
                return i + 1
    raise ValueError('unbalanced')


def split_args(text, begin, end):
    """(begin, end) of the comma-separated parts of text[begin:end]."""
    parts, depth, start = [], 0, begin
    for i in range(begin, end):
        c = text[i]
        if c in '([{':
            depth += 1
        elif c in ')]}':
            depth -= 1
        elif c == '<' and re.match(r'<[\w: ]+(, *[\w: ]+)*>', text[i:end]):
            depth += 1
        elif c == '>' and depth > 0 and text[i - 1] != '-' and not text[i:i + 2] == '> ':
            depth -= 1
        elif c == ',' and depth == 0:
            parts.append((start, i))
            start = i + 1
    parts.append((start, end))
    out = []
    for a, b in parts:
        while a < b and text[a].isspace():
            a += 1
        while b > a and text[b - 1].isspace():
            b -= 1
        out.append((a, b))
    return out


def numeric(expr):
    if not expr or expr in ('true', 'false', 'params', 'enhanced', 'load'):
        return False
    if re.search(r'TPosition|RoundMode|Get<|At<|LocalTensor|GlobalTensor|::Done|scale|lanes_|Scale|0\.0f|1\.0f',
                 expr):
        return False
    if re.fullmatch(r'(x_|y_|a_|b_|s_|w_|wide|part|sums|sum|out|done|in|y|x|s|b|a|from|pipe_|source|where|'
                    r'y_new|b_new|x_in_|a_in_|s_out_|s_in_|b_in_|y_in_|y_out_|x_wide_|a_wide_|'
                    r'work_|sums_|part_|wide_|y_wide_|lanes_|every_lane|lanes|first|!kFused|'
                    r'kTileA|kTileB|identity_|item_|item|load|chunk|chunks_|product|place|words_|span|member|first_group|lanes\[lane\])', expr):
        return False
    if expr.startswith(('sums[', 'x_[', 'y_[', 'w_[', 'weights_[', 'from[', 's_[', 'a_[', 'b_[', 'part[',
                        'source', 'lanes[')):
        return False
    return True


class File:
    def __init__(self, name, mutants):
        self.name = name
        self.text = open(os.path.join(ROOT, FOLDER, name)).read()
        self.blank = self.without_comments()
        self.inserts = collections.defaultdict(list)
        self.mutants = mutants
        self.sequence = 0

    def without_comments(self):
        return re.sub(r'//[^\n]*', lambda m: ' ' * len(m.group()), self.text)

    def where(self, at):
        return self.name, self.text.count('\n', 0, at) + 1

    def insert(self, at, text):
        self.inserts[at].append((0, 0, text))

    def wrap(self, a, b, opening, closing):
        """At one place closings come first, innermost first; then openings, outermost first."""
        self.sequence += 1
        self.inserts[a].append((1, (-b, self.sequence), opening))
        self.inserts[b].append((-1, (-a, -self.sequence), closing))

    def shift(self, a, b, deltas, what):
        """The expression text[a:b] plus each delta, one mutant each."""
        inner = re.match(r'static_cast<\w+>\(', self.blank[a:b])
        if inner and match(self.blank, a + inner.end() - 1) == b:
            a, b = a + inner.end(), b - 1
        expr = ' '.join(self.text[a:b].split())
        tail = ''.join(
            ' + LORICA_SHIFT(%d, %d)' % (self.mutants.new(
                self.where(a), '%s `%s` %+d' % (what, expr, d)), d) for d in deltas)
        self.wrap(a, b, '((', ')%s)' % tail)

    def flip(self, a, b, what):
        expr = ' '.join(self.text[a:b].split())
        number = self.mutants.new(self.where(a), '%s `%s` turned' % (what, expr))
        self.wrap(a, b, '((', ') != LORICA_ACTIVE(%d))' % number)

    def drop(self, a, what):
        number = self.mutants.new(self.where(a), what)
        self.insert(a, 'if (!LORICA_ACTIVE(%d)) ' % number)

    def flags(self, events):
        for m in re.finditer(r'AscendC::(SetFlag|WaitFlag)<HardEvent::(\w+)>\(', self.blank):
            end = match(self.blank, m.end() - 1)
            ident = self.text[m.end():end - 1]
            number = self.mutants.new(self.where(m.start()),
                                      '%s<%s>(%s) dropped' % (m.group(1), m.group(2), ident))
            self.insert(m.start(), 'if (!LORICA_ACTIVE(%d) && LoricaKeep("%s", %s)) ' %
                        (number, m.group(2), ident))
            events.add(m.group(2))

    def barriers(self):
        for m in re.finditer(r'AscendC::PipeBarrier<(\w+)>\(\)', self.blank):
            before = self.blank[:m.start()].rstrip()
            self.drop(m.start(), 'PipeBarrier<%s> dropped' % m.group(1))
            del before
        for m in re.finditer(r'AscendC::(CrossCore(?:Set|Wait)Flag)<0, (\w+)>\(', self.blank):
            self.drop(m.start(), '%s<%s> dropped' % (m.group(1), m.group(2)))

    def queues(self):
        for m in re.finditer(r'\w+\.(EnQue|FreeTensor)\((\w+)\);', self.blank):
            self.drop(m.start(), '%s dropped' % m.group().rstrip(';'))
        for m in re.finditer(r'AscendC::(SetAtomicAdd<Y>|SetAtomicNone)\(\)', self.blank):
            self.drop(m.start(), '%s dropped' % m.group(1))

    def assignments(self):
        for m in re.finditer(r'(?<=\n)\s+(params|load|enhanced|product|rows|tiles)\.(\w+) = ', self.blank):
            end = self.blank.index(';', m.end())
            expr = self.text[m.end():end]
            what = m.group(1) + '.' + m.group(2)
            if 'Mode' in expr:
                continue
            if expr in ('true', 'false') or m.group(2) in ('cmatrixInitVal', 'first'):
                self.flip(m.end(), end, what)
            elif what in ('tiles.from', 'tiles.length', 'rows.column', 'rows.columns'):
                self.shift(m.end(), end, (16, -16), what)
            elif m.group(2) in ('to', 'from', 'a', 'b'):
                self.shift(m.end(), end, (512, -512), what)
            elif m.group(2) in ('m', 'n', 'k', 'nSize', 'dValue', 'srcStride', 'dstStride', 'rows', 'columns',
                                'inner'):
                self.shift(m.end(), end, (16, -16, 1), what)
            else:
                self.shift(m.end(), end, (1, -1), what)

    def calls(self):
        for m in re.finditer(r'\b(%s)(<[\w:, ]+>)?\(' % '|'.join(CALLS), self.blank):
            line = self.blank[self.blank.rfind('\n', 0, m.start()) + 1:m.start()]
            if re.search(r'(inline|void)\b', line) or 'explicit' in line:
                continue
            end = match(self.blank, m.end() - 1)
            for i, (a, b) in enumerate(split_args(self.blank, m.end(), end - 1)):
                expr = self.text[a:b]
                if not numeric(expr):
                    continue
                what = '%s argument %d' % (m.group(1), i + 1)
                if m.group(1) == 'InitBuffer':
                    if b == end - 1:
                        self.shift(a, b, (-64,), 'bytes of a buffer,')
                elif m.group(1) in ('At', 'LocalTensor'):
                    if i == 2:
                        self.shift(a, b, (-16,), 'bound')
                    elif i == 1:
                        self.shift(a, b, (32, -512), what)
                elif BYTES.search(expr):
                    self.shift(a, b, (512, -512), what)
                else:
                    self.shift(a, b, (1, -1), what)

    def offsets(self):
        for m in re.finditer(r'\b(x_|y_|w_|weights_|from|s_|a_|b_|sums)\[', self.blank):
            end = match(self.blank, m.end() - 1, '[', ']')
            self.shift(m.end(), end - 1, (16,), 'GM offset')

    def loops(self):
        for m in re.finditer(r'for \(uint32_t (\w+) = ', self.blank):
            end = match(self.blank, m.start() + 4)
            first = self.blank.index(';', m.end())
            second = self.blank.index(';', first + 1)
            condition = re.match(r'; \w+ < ', self.blank[first:second])
            step = re.search(r'\+= (.*)\)$', self.blank[first:end], re.S)
            if condition and '&&' not in self.blank[first:second]:
                a, b = first + condition.end(), second
                for sign in '+-':
                    by = ' '.join((step.group(1) if step else '1').split())
                    number = self.mutants.new(self.where(a), 'loop bound `%s` %s %s' % (
                        ' '.join(self.text[a:b].split()), sign, by))
                    self.wrap(a, b, '(', ' %s (LORICA_ACTIVE(%d) ? (%s) : 0))' % (sign, number, by))

    def conditions(self):
        for m in re.finditer(r'\b(if|while) \(', self.blank):
            end = match(self.blank, m.end() - 1)
            expr = self.text[m.end():end - 1]
            if re.fullmatch(r'!?kFused|kLoadsY|items == 0|kForm == Form::k\w+', expr):
                continue
            self.flip(m.end(), end - 1, m.group(1))
        for m in re.finditer(r'loaded_ - x_used_ (?:==|<) (2)|loaded_ - used_ == (kSlots)', self.blank):
            group = 1 if m.group(1) else 2
            self.shift(m.start(group), m.end(group), (1, -1), 'limit')
        for m in re.finditer(r'const bool (\w+) = ', self.blank):
            self.flip(m.end(), self.blank.index(';', m.end()), 'value of ' + m.group(1))
        for m in re.finditer(r'\bLeast\(', self.blank):
            line = self.blank[self.blank.rfind('\n', 0, m.start()) + 1:m.start()]
            if 'inline' in line:
                continue
            end = match(self.blank, m.end() - 1)
            for a, b in split_args(self.blank, m.end(), end - 1):
                self.shift(a, b, (16,), 'Least of')
        for m in re.finditer(r'\? (\w+) : (\w+);', self.blank):
            if 'constexpr' in self.blank[self.blank.rfind('\n', 0, m.start()) + 1:m.start()]:
                continue
            self.shift(m.start(1), m.end(1), (16,), 'least of')
            self.shift(m.start(2), m.end(2), (16,), 'least of')

    def constants(self):
        for m in re.finditer(r'(?<=\n)(static )?constexpr uint32_t (k\w+) = ([^;]+);', self.blank):
            self.shift(m.start(3), m.end(3), (-512 if 'Bytes' in m.group(2) or 'At' in m.group(2) or
                                              'L0' in m.group(2) else 1,), 'constant ' + m.group(2))

    def result(self, kernel):
        out, last = [], 0
        for at in sorted(self.inserts):
            out.append(self.text[last:at])
            placed = self.inserts[at]
            out.extend(t for k, o, t in sorted(e for e in placed if e[0] == -1))
            out.extend(t for k, o, t in placed if k == 0)
            out.extend(t for k, o, t in sorted(e for e in placed if e[0] == 1))
            last = at
        out.append(self.text[last:])
        text = ''.join(out)
        text = re.sub(r'(?<=\n)(static )?constexpr uint32_t (k\w+) = ([^;]+);',
                      r'inline uint32_t \2F() { return \3; }\n#define \2 \2F()', text)
        text = text.replace('constexpr uint32_t elements', 'const uint32_t elements')
        for name in KERNELS[kernel]:
            text = text.replace('#include "%s%s"' % (FOLDER, name), '#include "%s"' % name)
        return text.replace('#include "kernel_operator.h"',
                            '#include "kernel_operator.h"\n#include "mutant.h"')


HEADER = '''#pragma once
#include <cstdint>
#include <cstring>
extern int lorica_mutant;
extern const char* lorica_event;
extern int lorica_event_id;
extern bool lorica_event_used;
#define LORICA_ACTIVE(n) (lorica_mutant == (n))
#define LORICA_SHIFT(n, d) (lorica_mutant == (n) ? static_cast<uint32_t>(d) : 0u)
inline bool LoricaKeep(const char* event, uint32_t id) {
  if (lorica_event_id != static_cast<int>(id) || std::strcmp(event, lorica_event) != 0) return true;
  lorica_event_used = true;
  return false;
}
'''


def build(kernel, build_dir, work):
    mutants = Mutants()
    events = set()
    files = [File(name, mutants) for name in KERNELS[kernel]]
    for f in files:
        f.flags(events)
        f.barriers()
        f.queues()
        f.assignments()
        f.calls()
        f.offsets()
        f.loops()
        f.conditions()
        f.constants()
    os.makedirs(work, exist_ok=True)
    for f in files:
        open(os.path.join(work, f.name), 'w').write(f.result(kernel))
    open(os.path.join(work, 'mutant.h'), 'w').write(HEADER)
    common = ['-O1', '-ffp-contract=off', '-I' + work, '-I' + ROOT,
              '-I' + os.path.join(ROOT, FOLDER, 'sim/include'), '-w']
    compiler = os.environ.get('CXX', 'g++')
    kernel_objects = []
    for name in KERNELS[kernel]:
        if name.endswith('.h'):
            continue
        kernel_objects.append(os.path.join(work, name[:-4] + '.o'))
        subprocess.run([compiler, '-std=c++17', '-fno-exceptions', *common, '-c',
                        os.path.join(work, name), '-o', kernel_objects[-1]], check=True)
    libs = ['lorica/kernels/ascend/liblorica_ascend.a',
            'lorica/kernels/ascend/liblorica_ascend_kernels.a',
            'lorica/kernels/ascend/sim/liblorica_ascend_sim.a', 'lorica/kernels/liblorica_kernels.a',
            'lorica/lora/liblorica_lora.a', 'lorica/formats/liblorica_formats.a',
            'lorica/base/liblorica_base.a']
    program = os.path.join(work, 'runner')
    subprocess.run([compiler, '-std=c++20', *common, '-DLORICA_KERNEL_' + kernel,
                    os.path.join(ROOT, FOLDER, 'tools/mutation_runner.cc'), *kernel_objects,
                    *[os.path.join(build_dir, lib) for lib in libs], '-lcrypto', '-lspdlog', '-lfmt',
                    '-lboost_json', '-lpthread', '-o', program], check=True)
    jobs = [([str(i + 1)], row) for i, row in enumerate(mutants.rows)]
    for event in sorted(events):
        for ident in range(6):
            jobs.append((['0', event, str(ident)], ('all', 0, 'every %s flag %d dropped, set and '
                                                              'wait' % (event, ident))))
    return program, jobs


def run(program, arguments):
    try:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=600,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU,
                                                                    (SECONDS, SECONDS)))
    except subprocess.TimeoutExpired:
        return 'hang'
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return 'hang'
    if done.returncode < 0 or done.returncode > 3:
        return 'abort'
    return done.stdout.strip() or 'abort'


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('build_dir')
    parser.add_argument('--out')
    parser.add_argument('--kernel', choices=sorted(KERNELS), action='append')
    arguments = parser.parse_args()
    equivalent = {}
    path = os.path.join(ROOT, 'scripts/ascend_mutations_equivalent.txt')
    if os.path.exists(path):
        for line in open(path):
            if line.strip() and not line.startswith('#'):
                key, _, reason = line.rstrip('\n').partition(' :: ')
                equivalent[key] = reason
    out = open(arguments.out, 'w') if arguments.out else sys.stdout
    unexplained = 0
    for kernel in arguments.kernel or KERNELS:
        work = os.path.join(arguments.build_dir, 'mutations', kernel)
        program, jobs = build(kernel, arguments.build_dir, work)
        if run(program, ['0']) != 'survived':
            sys.exit('%s: the unchanged kernel is not clean: %s' % (kernel, run(program, ['0'])))
        counts = collections.Counter()
        table = []
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            verdicts = list(pool.map(lambda job: run(program, job[0]), jobs))
        for (_, (name, line, what)), verdict in zip(jobs, verdicts):
            if verdict == 'unused':
                continue
            key = '%s: %s' % (name if name != 'all' else kernel, what)
            if verdict == 'survived':
                if key in equivalent:
                    verdict = 'equivalent: ' + equivalent[key]
                else:
                    verdict = 'SURVIVED'
                    unexplained += 1
                    print('survivor: %s (line %d)' % (key, line), file=sys.stderr)
            counts[verdict.split(':')[0]] += 1
            table.append('| %s%s | %s | %s |' % (name if name != 'all' else kernel,
                                                 ':%d' % line if line else '', what.replace('|', '\\|'),
                                                 verdict))
        print('## %s\n' % kernel, file=out)
        print('%d mutants: %s\n' % (sum(counts.values()), ', '.join(
            '%d %s' % (n, v) for v, n in sorted(counts.items()))), file=out)
        print('| where | mutation | noticed by |\n|---|---|---|', file=out)
        print('\n'.join(table) + '\n', file=out)
        out.flush()
        print('%s: %d mutants, %s' % (kernel, sum(counts.values()), dict(counts)), file=sys.stderr)
    sys.exit(1 if unexplained else 0)


if __name__ == '__main__':
    main()
