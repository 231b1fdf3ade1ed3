#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PTX to C: each kernel of a module becomes a C function that runs one thread (device.h).

    ptx_to_c.py MODULE.ptx >MODULE.c

It knows the instructions that nvcc and NVRTC make of our text. Another one becomes a call of die() and is told on stderr.

  registers         integers of their width; floats as bit patterns
  f32, f64          the host's, one rounding an operation (-ffp-contract=off), .ftz where the instruction says so
  global, generic   addresses of the host, checked by check()
  shared            offsets into the block's buffer, checked by check_shared()
  local, param      C arrays of the function, not checked
  branches          goto; a predicate is an if around one instruction
  barriers, warps   calls of the machine, which switches threads there
"""
import re
import sys
from collections import namedtuple

SIZE = {**{t + str(n): n // 8 for t in 'bus' for n in (8, 16, 32, 64)}, 'f32': 4, 'f64': 8, 'pred': 1, 'b128': 16}
C_TYPE = {k: 'unsigned __int128' if k == 'b128' else '%sint%d_t' % ('' if k[0] == 's' else 'u', 8 * n) for k, n in SIZE.items()}
FLOATS = ('f32', 'f64')
BITS_OF = {'f32': 'b32', 'f64': 'b64'}
HEADER = re.compile(r'\s*(\.visible|\.weak|\.extern)?\s*\.(entry|func)\b(.*)', re.S)
INTEGER = re.compile(r'^-?(0[xX][0-9a-fA-F]+|\d+)U?$')

# kind: reg, global, local, shared, dynamic, param; c: a C expression; type: of a register
Symbol = namedtuple('Symbol', 'kind c type')


class Untranslated(Exception):
    pass


def c_name(name):
    return re.sub(r'\W', '_', name)


def split(text):
    """Operands: at commas outside brackets."""
    return [p.strip() for p in re.findall(r'((?:[^,{\[(]|[{\[(][^}\])]*[}\])])+)', text) if p.strip()]


def statements(text):
    """(line, statement): one that ends in ';', a brace, a label 'name:', or the header of a kernel or function."""
    buf, first = '', 0
    for number, line in enumerate(text.split('\n'), 1):
        line = re.sub(r'//.*', '', line)
        if re.match(r'\s*\.(loc|file|section|version|target|address_size)\b', line):
            continue
        for ch in line + ' ':
            if not buf.strip():
                buf, first = '', number
            if ch in '{}' and not buf.strip():
                yield number, ch
            elif ch == '{' and HEADER.match(buf):
                yield first, buf.strip()
                yield number, '{'
                buf = ''
            elif ch == ';' or (ch == ':' and re.match(r'^\s*[\w$%]+$', buf)):
                yield first, buf.strip() + ch
                buf = ''
            else:
                buf += ch


def parameters(text):
    """The parameters of a header as (name, offset, bytes), and the bytes of all of them."""
    result, offset = [], 0
    for m in re.finditer(r'\.param\s*(?:\.align\s+(\d+))?\s*\.(\w+)\s*(?:\.ptr(?:\s*\.\w+)*(?:\s*\.align\s+\d+)?)?'
                         r'\s*([\w$%]+)\s*(?:\[(\d+)\])?', text):
        align, size = int(m.group(1) or SIZE[m.group(2)]), int(m.group(4) or 1) * SIZE[m.group(2)]
        offset = (offset + align - 1) // align * align
        result.append((m.group(3), offset, size))
        offset += size
    return result, offset


class Variable:
    """A declaration of .global, .const, .shared, .local or .param."""

    def __init__(self, rest, extern=False):
        m = re.match(r'\s*(?:\.attribute\([^)]*\))?\s*(?:\.align\s+(\d+))?\s*\.(\w+)\s+([\w$%]+)\s*(\[[^=]*\])?\s*(?:=\s*(.*))?$', rest, re.S)
        if not m:
            raise Untranslated('declaration ' + rest[:80])
        self.size, self.name, self.value = SIZE[m.group(2)], m.group(3), m.group(5) or ''
        self.align = int(m.group(1) or self.size)
        self.bytes = self.size
        for dimension in re.findall(r'\[(\d*)\]', m.group(4) or ''):
            self.bytes *= int(dimension or 0)
        self.dynamic = extern or self.bytes == 0

    def contents(self):
        data = bytearray(max(self.bytes, 1))
        for k, x in enumerate(x.strip() for x in re.sub(r'[{}]', '', self.value).split(',') if x.strip()):
            value = int(x[2:], 16) if re.match(r'^0[fdFD]', x) else int(x.rstrip('U'), 0)  # an address raises
            data[k * self.size:(k + 1) * self.size] = (value & ((1 << 8 * self.size) - 1)).to_bytes(self.size, 'little')
        return data


class Module:
    def __init__(self, text):
        self.kernels, self.functions = {}, {}   # name: (parameters, body), (results, parameters, body)
        self.variables = {}                     # of the module; shared ones get their place in each kernel
        self.globals, self.c = [], []           # (C name, bytes); their definitions
        found = list(statements(text))
        i = 0
        while i < len(found):
            s = found[i][1]
            header = HEADER.match(s)
            variable = re.match(r'(?:\.visible|\.weak|(\.extern))?\s*\.(global|const|shared)\b(.*);', s, re.S)
            if header and not s.endswith(';'):
                end, depth = i + 2, 1
                while depth:
                    depth += (found[end][1] == '{') - (found[end][1] == '}')
                    end += 1
                self.add(header.group(2), header.group(3), found[i + 2:end - 1])
                i = end - 1
            elif not header and variable:
                v = Variable(variable.group(3), bool(variable.group(1)))
                self.variables[v.name] = v if variable.group(2) == 'shared' else self.add_global(v)
            i += 1

    def add(self, kind, header, body):
        m = re.match(r'(?:\s*\.noinline|\s*\.attribute\([^)]*\))*\s*(?:\(([^)]*)\))?\s*([\w$]+)\s*(?:\((.*?)\))?', header, re.S)
        if kind == 'entry':
            self.kernels[m.group(2)] = (m.group(3) or '', body)
        else:
            self.functions[m.group(2)] = (m.group(1) or '', m.group(3) or '', body)

    def add_global(self, v):
        name, data = 'g%d_%s' % (len(self.globals), c_name(v.name)[-40:]), v.contents()
        self.globals.append((name, len(data)))
        self.c.append('static uint8_t __attribute__((aligned(16))) %s[%d] = {%s};'
                      % (name, len(data), ','.join(map(str, data)) if any(data) else '0'))
        return Symbol('global', name, None)


class Kernel:
    """What the functions of one kernel share: a prefix of names and the layout of shared memory."""

    def __init__(self, module, index):
        self.module, self.prefix = module, 'k%d_' % index
        self.shared_bytes, self.shared, self.functions, self.done = 0, {}, [], set()

    def place_shared(self, key, v):
        if v.dynamic:
            return Symbol('dynamic', self.prefix + 'dynamic_at', None)
        if key not in self.shared:
            at = (self.shared_bytes + v.align - 1) // v.align * v.align
            self.shared[key] = Symbol('shared', '%dull' % at, None)
            self.shared_bytes = at + v.bytes
        return self.shared[key]

    def add_function(self, name):
        """The C of a function and of those that it calls."""
        if name in self.done:
            return
        self.done.add(name)
        results, params, body = self.module.functions[name]
        f = Function(self, name)
        params = ['p_' + c_name(p[0]) for p in parameters(results)[0] + parameters(params)[0]]
        f.scopes[0].update({p[2:]: Symbol('param', p, None) for p in params})
        f.body(body)
        self.functions.append(('static __attribute__((noinline)) void %sf_%s(%s)' % (
            self.prefix, c_name(name), ', '.join(['struct thread *t'] + ['uint8_t *' + p for p in params])), f))


class Function:
    """Translates the body of one kernel or function: op_NAME writes the C of an instruction."""

    def __init__(self, kernel, name):
        self.kernel, self.module, self.name = kernel, kernel.module, name
        self.scopes, self.scope_number = [{}], 0
        self.arrays, self.registers, self.c = [], set(), []

    # ---- names and values ----
    def symbol(self, name):
        for scope in reversed(self.scopes):
            if name in scope:
                s = scope[name]
                break
        else:
            if name not in self.module.variables:
                raise Untranslated('name ' + name)
            s = self.module.variables[name]
            s = self.kernel.place_shared(name, s) if isinstance(s, Variable) else s
        if s.kind == 'reg':
            self.registers.add((s.c, s.type))
        return s

    def declare(self, space, rest):
        if space == 'reg':
            kind, names = re.match(r'\s*\.(\w+)\s+(.*)', rest, re.S).groups()
            suffix = '' if len(self.scopes) == 1 else '_s%d' % self.scope_number
            for name in split(names):
                m = re.match(r'(%?[\w$%]+)<(\d+)>', name)
                for n in [m.group(1) + str(k) for k in range(int(m.group(2)))] if m else [name]:
                    self.scopes[-1][n] = Symbol('reg', 'r_' + c_name(n.lstrip('%')) + suffix, kind)
            return
        v = Variable(rest)
        if space in ('local', 'param'):
            name = 'a_%s_%d' % (c_name(v.name), self.scope_number)
            self.arrays.append('uint8_t __attribute__((aligned(16))) %s[%d];' % (name, max(v.bytes, 1)))
            self.scopes[-1][v.name] = Symbol(space, name, None)
        else:
            self.scopes[-1][v.name] = (self.kernel.place_shared((self.name, v.name), v) if space == 'shared' else self.module.add_global(v))

    @staticmethod
    def cast(c, kind):
        return 'u2f((uint32_t)(%s))' % c if kind == 'f32' else 'u2d(%s)' % c if kind == 'f64' else '((%s)(%s))' % (C_TYPE[kind], c)

    SPECIAL = {'%laneid': 't->lane', '%warpid': 't->warp', '%dynamic_smem_size': 't->m->shared_bytes', '%clock64': '++t->m->random',
               '%globaltimer': '++t->m->random', '%lanemask_lt': '(1u<<t->lane)-1', '%lanemask_le': '(2u<<t->lane)-1',
               '%lanemask_eq': '1u<<t->lane', '%lanemask_gt': '~((2u<<t->lane)-1)', '%lanemask_ge': '~((1u<<t->lane)-1)'}

    def address(self, name):
        s = self.symbol(name)
        return s.c if s.kind in ('reg', 'shared', 'dynamic') else '(uint64_t)(uintptr_t)%s' % s.c

    def value(self, x, kind):
        """An operand as a C expression: a float, or an integer of the type's width."""
        if x.startswith('!'):
            return '(!%s)' % self.value(x[1:], kind)
        m = re.match(r'%(tid|ntid|ctaid|nctaid)\.([xyz])$', x)
        if m:
            return self.cast('t->%s[%d]' % (m.group(1), 'xyz'.index(m.group(2))), kind)
        if x in self.SPECIAL:
            return self.cast(self.SPECIAL[x], kind)
        if re.match(r'^0[fF][0-9a-fA-F]{8}$|^0[dD][0-9a-fA-F]{16}$', x):
            return self.cast('0x%sull' % x[2:], kind)
        if INTEGER.match(x):
            return '((%s)0x%xull)' % (C_TYPE[BITS_OF.get(kind, kind)], int(x.rstrip('U'), 0) & ((1 << 64) - 1))
        return self.cast(self.address(x), kind)

    def put(self, register, c, kind):
        if register == '_':
            self.c.append('(void)(%s);' % c)
            return
        s = self.symbol(register)
        c = 'f2u(%s)' % c if kind == 'f32' else 'd2u(%s)' % c if kind == 'f64' else c
        self.c.append('%s = (%s)(%s);' % (s.c, C_TYPE[s.type], c))

    # ---- statements ----
    def body(self, body):
        for self.line, s in body:
            if s == '{':
                self.scope_number += 1
                self.scopes.append({})
                self.c.append('{')
            elif s == '}':
                self.scopes.pop()
                self.c.append('}')
            elif s.endswith(':'):
                self.c.append('L_%s:;' % c_name(s[:-1]))
            elif s != ';':
                start = len(self.c)
                try:
                    self.statement(s[:-1].strip())
                except (Untranslated, KeyError, IndexError, TypeError, ValueError) as e:
                    del self.c[start:]
                    print('ptx_to_c: %s: not translated: %s (line %d): %r' % (self.name[:80], s, self.line, e), file=sys.stderr)
                    self.c.append('t->m->die(t, "an instruction that ptx_to_c.py does not know", %s);' % self.where())

    def where(self):
        return '%sname, %d' % (self.kernel.prefix, self.line)

    def statement(self, s):
        declared = re.match(r'\.(reg|local|shared|param|const|global)\b(.*)', s, re.S)
        predicated = re.match(r'@(!?)(%?[\w$]+)\s+(.*)', s, re.S)
        if declared:
            self.declare(declared.group(1), declared.group(2))
        elif predicated:
            self.c.append('if (%s%s) {' % (predicated.group(1), self.value(predicated.group(2), 'pred')))
            self.instruction(predicated.group(3))
            self.c.append('}')
        elif not s.startswith('.'):
            self.instruction(s)

    ALIAS = {'exit': 'ret', 'ldu': 'ld', 'red': 'atom', 'barrier': 'bar', 'sub': 'add', 'rem': 'div', 'max': 'min', 'mad': 'mul',
             'fma': 'mul', 'or': 'and', 'xor': 'and', 'membar': 'fence', 'prefetch': 'fence', 'prefetchu': 'fence'}

    def instruction(self, s):
        m = re.match(r'([\w.:]+)\s*(.*)$', s, re.S)
        self.opcode, *self.mods = m.group(1).split('.')
        self.ops = split(m.group(2))
        self.type = self.mods[-1] if self.mods else None
        self.utype = self.type.replace('s', 'u') if self.type and self.type[0] == 's' else self.type
        self.bits = 8 * SIZE.get(self.type, 0)
        self.ftz = 'ftz' in self.mods and self.type == 'f32'
        if {'approx', 'full', 'rz', 'rm', 'rp', 'cc', 'NaN'} & set(self.mods):
            raise Untranslated('approximate, or another rounding')
        self.c.append('COUNT(%s);' % {'ld': 'N_' + self.space().upper(), 'st': 'N_' + self.space().upper(), 'call': 'N_CALL'}.get(self.opcode, 'N_OTHER'))
        getattr(self, 'op_' + self.ALIAS.get(self.opcode, self.opcode), self.op_unknown)()

    def op_unknown(self):
        raise Untranslated('instruction')

    # ---- operands of the current instruction ----
    def v(self, i, kind=None):
        return self.value(self.ops[i], kind or self.type)

    def f(self, i):
        """A float, flushed where the instruction says .ftz."""
        return 'flush(%s)' % self.v(i) if self.ftz else self.v(i)

    def put_float(self, c):
        self.put(self.ops[0], 'flush(%s)' % c if self.ftz else c, self.type)

    def by_width(self, name):
        return name + ('f' if self.type == 'f32' else '')

    # ---- control ----
    def op_bra(self):
        self.c.append('goto L_%s;' % c_name(self.ops[0]))

    def op_ret(self):
        self.c.append('return;')

    def op_trap(self):
        self.c.append('t->m->die(t, "trap", %s);' % self.where())

    def op_call(self):
        ops = self.ops if self.ops[0].startswith('(') else ['()'] + self.ops
        if ops[1] not in self.module.functions:
            raise Untranslated('call of ' + ops[1])
        arguments = [self.symbol(x).c for x in split(ops[0][1:-1]) + split((ops + ['()'])[2][1:-1])]
        self.kernel.add_function(ops[1])
        self.c.append('%sf_%s(%s);' % (self.kernel.prefix, c_name(ops[1]), ', '.join(['t'] + arguments)))

    def op_fence(self):
        self.c.append('maybe_yield(t);')

    def op_nanosleep(self):
        self.c.append('t->m->yield(t, 1);')

    def op_bar(self):
        mods = [x for x in self.mods if x not in ('cta', 'aligned')]
        if mods[0] == 'warp':
            self.warp('WBAR', '0', '0', '0', self.v(0, 'b32'))
        elif mods[0] == 'sync' and len(self.ops) == 1:
            self.c.append('t->m->bar(t, (int)%s, RED_NONE, 0);' % self.v(0, 'b32'))
        elif mods[0] == 'red':
            self.c.append('t->m->bar(t, (int)%s, RED_%s, %s);' % (self.v(1, 'b32'), mods[1].upper(), self.v(-1, 'pred')))
            self.put(self.ops[0], 't->result', 'u32')
        else:
            raise Untranslated('barrier of a part of the block')

    # ---- warps ----
    def warp(self, op, a, b, c, mask):
        self.c.append('t->m->warp(t, OP_%s, %s, %s, %s, %s, %d);' % (op, a, b, c, mask, self.line))

    def op_shfl(self):
        self.warp('SHFL_' + self.mods[1].upper(), *[self.v(i, 'b32') for i in (1, 2, 3, 4)])
        to = self.ops[0].split('|')
        self.put(to[0], 't->result', 'b32')
        if len(to) > 1:
            self.put(to[1], 't->result_predicate', 'pred')

    def op_vote(self):
        mode = [x for x in self.mods if x in ('ballot', 'any', 'all', 'uni')][0]
        self.warp(mode.upper(), self.v(1, 'pred'), '0', '0', self.v(2, 'b32'))
        self.put(self.ops[0], 't->result', 'b32')

    # ---- moves ----
    def op_mov(self):
        to, what = self.ops
        parts = split((to if to.startswith('{') else what)[1:-1])
        width = self.bits // max(len(parts), 1)
        if to.startswith('{'):
            self.c.append('{ uint64_t x_ = %s;' % self.v(1))
            for i, p in enumerate(parts):
                self.put(p, 'x_ >> %d' % (i * width), 'b%d' % width)
            self.c.append('}')
        elif what.startswith('{'):
            self.put(to, ' | '.join('((uint64_t)%s << %d)' % (self.value(p, 'b%d' % width), i * width) for i, p in enumerate(parts)), 'b64')
        else:
            kind = BITS_OF.get(self.type, self.type)
            self.put(to, self.value(what, kind), kind)

    def op_cvta(self):
        c = self.v(1, 'u64')
        if self.space() == 'shared':
            c = '%s %s (uint64_t)(uintptr_t)t->shared' % (c, '-' if 'to' in self.mods else '+')
        self.put(self.ops[0], c, 'u64')

    def op_selp(self):
        kind = BITS_OF.get(self.type, self.type)
        self.put(self.ops[0], '%s ? %s : %s' % (self.v(3, 'pred'), self.v(1, kind), self.v(2, kind)), kind)

    # ---- arithmetic; a method of several names (ALIAS) reads self.opcode ----
    def op_add(self):
        sign = '-' if self.opcode == 'sub' else '+'
        if self.type in FLOATS:
            self.put_float('(%s %s %s)' % (self.f(1), sign, self.f(2)))
        else:
            self.put(self.ops[0], '(%s)(%s %s %s)' % (C_TYPE[self.utype], self.v(1, self.utype), sign, self.v(2, self.utype)), self.utype)

    def op_mul(self):
        add = self.opcode in ('mad', 'fma')
        if self.type in FLOATS:
            self.put_float('%s(%s, %s, %s)' % (self.by_width('fma'), self.f(1), self.f(2), self.f(3)) if add
                           else '(%s * %s)' % (self.f(1), self.f(2)))
            return
        kind = self.utype
        if 'wide' in self.mods:
            wide = self.type[0] + str(2 * self.bits)
            kind = 'u%d' % (2 * self.bits)
            c = '(%s)%s * (%s)%s' % (C_TYPE[wide], self.v(1), C_TYPE[wide], self.v(2))
        elif 'hi' in self.mods:
            wide = ('' if self.type[0] == 's' else 'unsigned ') + ('__int128' if self.bits == 64 else 'long long')
            c = '((%s)%s * (%s)%s) >> %d' % (wide, self.v(1), wide, self.v(2), self.bits)
        else:
            c = '%s * (%s)%s' % (self.v(1, kind), 'uint32_t' if self.bits == 16 else C_TYPE[kind], self.v(2, kind))
        c = '(%s)(%s)' % (C_TYPE[kind], c)
        self.put(self.ops[0], '(%s)(%s + %s)' % (C_TYPE[kind], c, self.v(3, kind)) if add else c, kind)

    def op_div(self):
        if self.type in FLOATS:
            self.put_float('(%s / %s)' % (self.f(1), self.f(2)))
            return
        a, b, sign = self.v(1), self.v(2), '/' if self.opcode == 'div' else '%'
        c = '%s %s %s' % (a, sign, b)
        if self.type[0] == 's':  # the least number by -1 overflows in C
            c = '%s == -1 ? (%s)%s : %s' % (b, C_TYPE[self.type], '(-%s)' % self.v(1, self.utype) if sign == '/' else '0', c)
        self.put(self.ops[0], '%s == 0 ? (t->m->die(t, "division by 0", %s), (%s)0) : %s' % (b, self.where(), C_TYPE[self.type], c), self.type)

    def op_rcp(self):
        self.put_float('(1 / %s)' % self.f(1))

    def op_sqrt(self):
        self.put_float(self.by_width('sqrt') + '(%s)' % self.f(1))

    def sign_bit(self, sign, mask32, mask64):
        kind = BITS_OF[self.type]
        c = 'f2u(flush(%s))' % self.v(1) if self.ftz else self.v(1, kind)
        self.put(self.ops[0], '%s %s %s' % (c, sign, mask32 if self.type == 'f32' else mask64), kind)

    def op_abs(self):
        if self.type in FLOATS:
            self.sign_bit('&', '0x7fffffffu', '0x7fffffffffffffffull')
        else:
            self.put(self.ops[0], '%s < 0 ? (%s)(0 - %s) : %s' % (self.v(1), C_TYPE[self.type], self.v(1, self.utype), self.v(1)), self.type)

    def op_neg(self):
        if self.type in FLOATS:
            self.sign_bit('^', '0x80000000u', '0x8000000000000000ull')
        else:
            self.put(self.ops[0], '(%s)(0 - %s)' % (C_TYPE[self.utype], self.v(1, self.utype)), self.utype)

    def op_min(self):
        if self.type in FLOATS:
            self.put_float('%s(%s, %s)' % (self.by_width('f' + self.opcode), self.f(1), self.f(2)))
        else:
            self.put(self.ops[0], '%s %s %s ? %s : %s' % (self.v(1), '<' if self.opcode == 'min' else '>', self.v(2), self.v(1), self.v(2)), self.type)

    # ---- bits ----
    def op_and(self):
        self.put(self.ops[0], '%s %s %s' % (self.v(1), {'and': '&', 'or': '|', 'xor': '^'}[self.opcode], self.v(2)), self.type)

    def op_not(self):
        self.put(self.ops[0], ('!%s' if self.type == 'pred' else '~%s') % self.v(1), self.type)

    def op_shl(self):
        self.put(self.ops[0], 'shl%d(%s, %s)' % (max(self.bits, 32), self.v(1), self.v(2, 'u32')), self.type)

    def op_shr(self):
        self.put(self.ops[0], '%s%d(%s, %s)' % ('sar' if self.type[0] == 's' else 'shr', max(self.bits, 32), self.v(1), self.v(2, 'u32')), self.type)

    def op_shf(self):
        by = ('(%s & 31)' if 'wrap' in self.mods else 'least(%s, 32)') % self.v(3, 'u32')
        both = '(((uint64_t)%s << 32) | %s)' % (self.v(2, 'b32'), self.v(1, 'b32'))
        self.put(self.ops[0], ('shl64(%s, %s) >> 32' if self.mods[0] == 'l' else 'shr64(%s, %s)') % (both, by), 'b32')

    def op_popc(self):
        self.put(self.ops[0], '__builtin_popcountll(%s)' % self.v(1), 'u32')

    def op_clz(self):
        self.put(self.ops[0], '%s ? __builtin_clz%s(%s) : %d' % (self.v(1), 'll' if self.bits == 64 else '', self.v(1), self.bits), 'u32')

    def op_brev(self):
        self.put(self.ops[0], 'brev64(%s) >> %d' % (self.v(1), 64 - self.bits), self.type)

    def op_bfi(self):
        self.put(self.ops[0], 'bfi(%s, %s, %s, %s, %d)' % (self.v(1), self.v(2), self.v(3, 'u32'), self.v(4, 'u32'), self.bits), self.type)

    def op_bfe(self):
        self.put(self.ops[0], 'bfe(%s, %s, %s, %d, %d)'
                 % (self.v(1, self.utype), self.v(2, 'u32'), self.v(3, 'u32'), self.bits, self.type[0] == 's'), self.type)

    def op_prmt(self):
        self.put(self.ops[0], 'prmt(%s, %s, %s)' % tuple(self.v(i, 'b32') for i in (1, 2, 3)), 'b32')

    def op_lop3(self):
        self.put(self.ops[0], 'lop3(%s, %s, %s, %s)' % tuple(self.v(i, 'b32') for i in (1, 2, 3, 4)), 'b32')

    # ---- conversions and comparisons ----
    ROUND = {'rni': 'nearbyint((double)%s)', 'rzi': 'trunc((double)%s)', 'rmi': 'floor((double)%s)', 'rpi': 'ceil((double)%s)'}

    def op_cvt(self):
        to, source = self.mods[-2:]
        rounding = ([x for x in self.mods if re.match(r'r[nzmp]i?$', x)] + [''])[0]
        x = self.v(1, source)
        if 'sat' in self.mods:
            raise Untranslated('saturation')
        if 'ftz' in self.mods and source == 'f32':
            x = 'flush(%s)' % x
        if source in FLOATS:
            x = self.ROUND[rounding] % x if rounding in self.ROUND else x
        if source in FLOATS and to not in FLOATS:
            x = 'f2%s(%s)' % (to, x) if SIZE[to] >= 4 else '(%s)f2%s32(%s)' % (C_TYPE[to], to[0], x)
        elif to in FLOATS:
            x = '(%s)%s' % ('float' if to == 'f32' else 'double', x)
            x = 'flush(%s)' % x if 'ftz' in self.mods and to == 'f32' else x
        else:
            x = '(%s)%s' % (C_TYPE[to], x)
        self.put(self.ops[0], x, to)

    COMPARE = {'eq': '==', 'ne': '!=', 'lt': '<', 'le': '<=', 'gt': '>', 'ge': '>=', 'lo': '<', 'ls': '<=', 'hi': '>', 'hs': '>='}

    def op_setp(self):
        how, a, b = self.mods[0], self.f(1), self.f(2)
        nan = '(%s != %s || %s != %s)' % (a, a, b, b)
        if how in self.COMPARE:
            c = '(%s %s %s)' % (a, self.COMPARE[how], b)
            c = '(!%s && %s)' % (nan, c) if self.type in FLOATS and how == 'ne' else c
        elif how in ('nan', 'num'):
            c = nan if how == 'nan' else '(!%s)' % nan
        else:
            c = '(%s || %s %s %s)' % (nan, a, self.COMPARE[how[:-1]], b)
        not_c = '!%s' % c
        for combine in [x for x in self.mods[1:] if x in ('and', 'or', 'xor')]:
            sign = {'and': '&', 'or': '|', 'xor': '^'}[combine]
            c, not_c = ['(%s) %s %s' % (x, sign, self.v(3, 'pred')) for x in (c, not_c)]
        to = self.ops[0].split('|')
        self.c.append('{ uint8_t other_ = %s; (void)other_;' % not_c)  # the first may be one that the second reads
        self.put(to[0], c, 'pred')
        if len(to) > 1:
            self.put(to[1], 'other_', 'pred')
        self.c.append('}')

    # ---- memory ----
    def space(self):
        for x in self.mods:
            if re.match(r'(global|shared|local|const|param)(::\w+)?$', x):
                return x.split(':')[0]
        return 'generic'

    def pointer(self, operand, write, count):
        """Writes the checks of `count` elements; a C pointer to their bytes, and whether it opened a brace."""
        m = re.match(r'^\[\s*([%\w$]+)\s*(?:\+\s*(-?\w+))?\s*\]$', operand)
        s, offset, space = self.symbol(m.group(1)), int(m.group(2) or '0', 0), self.space()
        if s.kind == 'param':
            return '(%s + %d)' % (s.c, offset), False
        self.c.append('{ uint64_t at_ = %s + (uint64_t)(%dll);' % (self.cast(self.address(m.group(1)), 'u64'), offset))
        size = SIZE[self.type]
        if space == 'shared':
            self.c.append('check_shared(t, at_, %d, %s);' % (size * count, self.where()))
            return '(t->shared + at_)', True
        if space in ('global', 'generic') and s.kind != 'global':
            self.c.append('check(t, at_, %d, %d, %d, %s);' % (size * count, size * count, write, self.where()))
        return '((uint8_t *)(uintptr_t)at_)', True

    def op_ld(self):
        self.ops[0] = split(self.ops[0][1:-1]) if self.ops[0].startswith('{') else [self.ops[0]]
        to, kind = self.ops[0], BITS_OF.get(self.type, self.type)
        p, opened = self.pointer(self.ops[1], 0, len(to))
        if self.space() in ('global', 'shared', 'generic'):
            waits = {'volatile', 'relaxed', 'acquire'} & set(self.mods)  # a loop that waits lets others run
            self.c.append('t->m->yield(t, 1);' if waits else 'maybe_yield(t);')
        self.c.append('{')
        for i in range(len(to)):  # a vector is read at once
            self.c.append('%s x%d_ = *(volatile %s *)(%s + %d);' % (C_TYPE[kind], i, C_TYPE[kind], p, i * SIZE[kind]))
        for i, register in enumerate(to):
            self.put(register, 'x%d_' % i, kind)
        self.c.append('}' + '}' * opened)

    def op_st(self):
        what, kind = split(self.ops[1][1:-1]) if self.ops[1].startswith('{') else [self.ops[1]], BITS_OF.get(self.type, self.type)
        p, opened = self.pointer(self.ops[0], 1, len(what))
        if self.space() in ('global', 'shared', 'generic'):
            self.c.append('maybe_yield(t);')
        for i, x in enumerate(what):
            self.c.append('*(volatile %s *)(%s + %d) = %s;' % (C_TYPE[kind], p, i * SIZE[kind], self.value(x, kind)))
        self.c.append('}' * opened)

    def op_atom(self):
        if self.type in FLOATS:
            raise Untranslated('an atomic of floats')
        ops = ['_'] + self.ops if self.opcode == 'red' else self.ops
        how = [x for x in self.mods if x in ('add', 'min', 'max', 'cas', 'exch', 'and', 'or', 'xor')][0]
        c = {'add': 'old_ + x_', 'min': 'x_ < old_ ? x_ : old_', 'max': 'x_ > old_ ? x_ : old_', 'exch': 'x_',
             'and': 'old_ & x_', 'or': 'old_ | x_', 'xor': 'old_ ^ x_', 'cas': 'old_ == x_ ? %s : old_'}[how]
        p, opened = self.pointer(ops[1], 1, 1)
        self.c.append('t->m->yield(t, 1);')
        self.c.append('{ %s *p_ = (void *)%s, old_ = *p_, x_ = %s;' % (C_TYPE[self.type], p, self.value(ops[2], self.type)))
        self.c.append('*p_ = %s;' % (c % self.value(ops[3], self.type) if how == 'cas' else c))
        self.put(ops[0], 'old_', self.type)
        self.c.append('}' + '}' * opened)

    def text(self, signature):
        return '\n'.join([signature, '{'] + self.arrays + ['%s %s = 0;' % (C_TYPE[kind], name) for name, kind in sorted(self.registers)] + self.c + ['}'])


def main():
    module = Module(re.sub(r'/\*.*?\*/', lambda m: '\n' * m.group().count('\n'), open(sys.argv[1]).read(), flags=re.S))
    kernels, code = [], []
    for index, (name, (params, body)) in enumerate(module.kernels.items()):
        k = Kernel(module, index)
        params, size = parameters(params)
        f = Function(k, name)
        f.scopes[0].update({p: Symbol('param', '((uint8_t *)(uintptr_t)t->param + %d)' % offset, None) for p, offset, _ in params})
        f.body(body)
        code.append('static const char %sname[] = "%s";\nenum { %sdynamic_at = %d };' % (k.prefix, name, k.prefix, (k.shared_bytes + 15) // 16 * 16))
        code += [signature + ';' for signature, _ in k.functions] + [g.text(signature) for signature, g in k.functions]
        code.append(f.text('static void %srun(struct thread *t)' % k.prefix))
        code.append('static const unsigned %sparam[] = {%s};' % (k.prefix, ', '.join('%d, %d' % p[1:] for p in params) or '0'))
        kernels.append('{%sname, %srun, %sdynamic_at, %d, %d, %sparam},' % (k.prefix, k.prefix, k.prefix, size, len(params), k.prefix))
    print('#include "device.h"', *module.c, *code, sep='\n')
    print('const struct ptx_kernel ptx_kernels[] = {', *kernels, '{0}};', sep='\n')
    print('const struct ptx_global ptx_globals[] = {', *['{%s, %d},' % g for g in module.globals], '{0}};', sep='\n')


if __name__ == '__main__':
    main()
