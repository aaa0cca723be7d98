// Refused files, each with its place and reason; and arbitrary text.

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/cmd/oncrpcgen/internal/check"
	"github.com/nfsrdma/nfsrdma/cmd/oncrpcgen/internal/syntax"
	"github.com/nfsrdma/nfsrdma/cmd/oncrpcgen/internal/write"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// compile returns the code generated for text, which can include files.
func compile(text string, files map[string]string) (string, error) {
	include := func(name string) ([]byte, error) {
		if s, ok := files[name]; ok {
			return []byte(s), nil
		}
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	tree, err := syntax.Parse("a.x", []byte(text), syntax.Options{Include: include})
	if err != nil {
		return "", err
	}
	m, err := check.Check(tree, check.Options{Max: 1 << 20})
	if err != nil {
		return "", err
	}
	code, err := write.Go(m, write.Options{Package: "p", Source: "a.x", Max: 1 << 20})
	return string(code), err
}

var refused = []struct{ text, want string }{
	// lexer and preprocessor
	{"const A = 1", "a.x:1:12: expected \";\", found the end of the file"},
	{"const A = 1;\n  @", "a.x:2:3: unexpected character \"@\""},
	{"/* no end", "a.x:1:1: comment without an end"},
	{"const A = \"no end\n;", "a.x:1:11: unexpected character \"\\\"\""},
	{"const A = 09;", "a.x:1:11: 09 is not an integer within 64 bits"},
	{"const A = 18446744073709551616;", "a.x:1:11: 18446744073709551616 is not an integer within 64 bits"},
	{"#if 1\nconst A = 1;", "a.x:1:1: #if without #endif"},
	{"#endif", "a.x:1:1: #endif without #if"},
	{"#if 0\n#else\n#else\n#endif", "a.x:3:1: #else without #if"},
	{"#if 1 + 1\n#endif", "a.x:1:1: #if: cannot evaluate \"+ 1\"; integers, names, defined, !, comparisons, && and || are known"},
	{"#include <rpc/rpc.h>", "a.x:1:1: #include <rpc/rpc.h>: headers for C are not read; give their constants with -D, or include a .x file in quotes"},
	{"#include \"none.x\"", "a.x:1:1: cannot include: open none.x: file does not exist"},
	{"#include \"self.x\"", "self.x:1:1: cannot include self.x: no more files can be included here"},
	{"#include \"bad.x\"", "bad.x:2:1: expected const, typedef, enum, struct, union or program, found oops"},
	{"#error stop", "a.x:1:1: #error stop"},
	{"#using x", "a.x:1:1: #using is not known"},
	{"#define f(x) x\nconst A = f(1);", "a.x:2:11: the macro f has parameters, which are not replaced here"},
	{"#define A A\nconst B = A;", "a.x:2:11: the macro A contains itself, or too many others"},
	// parser
	{"struct int { int a; };", "a.x:1:8: \"int\" is a word of the language and cannot be a name"},
	{"struct s { };", "a.x:1:1: a struct without fields"},
	{"struct s { opaque a; };", "a.x:1:19: opaque a needs a size: [n] or <n>"},
	{"struct s { string a[3]; };", "a.x:1:19: string a can only have a limit: <n>"},
	{"struct s { int *a<3>; };", "a.x:1:18: an optional array: give the array a name by typedef"},
	{"union u switch (int a) { };", "a.x:1:21: a union without arms"},
	{"union u switch (int a) { default: void; default: void; };", "a.x:1:41: a second default"},
	{"typedef void;", "a.x:1:1: typedef of void"},
	// names and constants
	{"const A = 1; const A = 2;", "a.x:1:20: A is already declared at a.x:1:7"},
	{"struct a_b { int x; }; struct aB { int x; };", "a.x:1:31: aB and a_b (at a.x:1:8) both become AB in Go: rename one"},
	{"const A = B; const B = A;", "a.x:1:24: the value of A depends on itself"},
	{"struct s { opaque a<N>; };", "a.x:1:21: N is not defined; a constant from a header for C can be given with -D N=N"},
	{"struct s { opaque a<-1>; };", "a.x:1:21: the limit of a is -1, not a number from 0 to 4294967295"},
	{"struct s { opaque a[70000]; };", "a.x:1:21: the size of a is 70000; only up to 65536 is accepted: use <> with a limit"},
	{"enum e { A = 4294967296 };", "a.x:1:10: A is not within 32 bits"},
	// types
	{"struct s { t a; };", "a.x:1:12: there is no type t"},
	{"typedef a b; typedef b a;", "a.x:1:11: b is another name for itself"},
	{"typedef a *b; typedef b a;", "a.x:1:12: b is another name for itself"},
	{"typedef a *a;", "a.x:1:12: a is another name for itself"},
	{"typedef a a;", "a.x:1:11: typedef of a to itself"},
	{"struct s { int n; s again; };", "a.x:1:8: s contains itself: use a pointer"},
	{"struct s { opaque nothing[0]; }; struct t { s list<>; };", "a.x:1:47: a list of elements without bytes"},
	{"union u switch (hyper a) { default: void; };", "a.x:1:23: a union cannot switch on a: an int, unsigned int, bool or enum is needed"},
	{"enum e { A }; union u switch (e a) { case 2: void; };", "a.x:1:43: case 2 is not a value of a"},
	{"union u switch (int a) { case 1: void; case 1: void; };", "a.x:1:45: case 1 stands twice in one union"},
	{"union u switch (int a) { case 1: int x; case 2: bool x; };", "a.x:1:54: x is already an arm, at a.x:1:38"},
	// chunks
	{"struct s { int a; /* ddp-eligible */ };", "a.x:1:16: a is marked ddp-eligible, but only opaque<> and string<> can be"},
	{"struct s { opaque a<>; /* ddp-eligible */ }; struct t { s all<3>; };", "a.x:1:59: a ddp-eligible item in a list or an optional value: only one that is always there can be a chunk"},
	{"struct s { opaque a<>; /* ddp-eligible */\nopaque b<>; /* ddp-eligible */\n}; program P { version V { void F(s) = 1; } = 1; } = 1;",
		"a.x:3:33: the arguments of F can have several ddp-eligible items; one is possible"},
	// limits
	{limited("int", "a", "count"), "a.x:2:50: expected reply-limit: FIELD or reply-limit: FIELD + CONSTANT"},
	{limited("int", "a", ": a - 1"), "a.x:2:50: expected reply-limit: FIELD or reply-limit: FIELD + CONSTANT"},
	{limited("int", "a", ": a + 1 */ /* reply-limit: a"), "a.x:2:75: a second reply-limit"},
	{limited("int", "a", ": a + 09"), "a.x:2:50: 09 is not an integer within 64 bits"},
	{limited("int", "a", ": a + N"), "a.x:2:50: N is not defined; a constant from a header for C can be given with -D N=N"},
	{limited("int", "a", ": a + 4294967296"), "a.x:2:50: the constant in the reply-limit of F is 4294967296, not a number from 0 to 4294967295"},
	{limited("int", "a", ": b"), "a.x:2:50: reply-limit: s has no field b"},
	{limited("int", "a", ": a.b"), "a.x:2:50: reply-limit: s.a has no field b"},
	{limited("float", "a", ": a"), "a.x:2:50: reply-limit: s.a is no integer"},
	{"program P { version V { int F(int) = 1; /* reply-limit: a */ } = 1; } = 1;", "a.x:1:41: reply-limit: F needs one argument, a struct"},
	{"program P { version V { void F(void) = 1; /* reply-limit: a */ } = 1; } = 1;", "a.x:1:43: reply-limit: F has no result"},
	{"struct s { unsigned n; opaque a<>; /* ddp-eligible */\n}; program P { version V { s F(s) = 1; /* reply-limit: n */ } = 1; } = 1;",
		"a.x:2:40: reply-limit: the result of F has a ddp-eligible item, whose length the caller's sink limits"},
	// programs
	{"program P { } = 1;", "a.x:1:9: a program without versions"},
	{"program P { version V { } = 1; } = 1;", "a.x:1:21: a version without procedures"},
	{"program P { version V { void F(void) = 70000; } = 1; } = 1;", "a.x:1:40: the number of F is 70000; a server's table has procedures up to 65535"},
	{"program P { version V { void F(void) = 1; void G(void) = 1; } = 1; } = 1;", "a.x:1:48: procedure 1 stands twice in V"},
	{"program P { version V { void F(void) = 1; } = 1; version W { void F(void) = 1; } = 1; } = 1;", "a.x:1:58: W, version 1, stands twice in P"},
	{"program P { version V { void F(opaque) = 1; } = 1; } = 1;", "a.x:1:32: opaque needs a size: give it a name by typedef"},
}

// limited returns a file with a procedure whose argument has one field, and with the given
// reply-limit.
func limited(fieldType, field, limit string) string {
	return fmt.Sprintf("struct s { %s %s; };\nprogram P { version V { string F(s) = 1;         /* reply-limit%s */ } = 1; } = 1;", fieldType, field, limit)
}

func TestRefused(t *testing.T) {
	files := map[string]string{"self.x": "#include \"self.x\"\n", "bad.x": "const FINE = 1;\noops"}
	for _, r := range refused {
		_, err := compile(r.text, files)
		if got := fmt.Sprint(err); got != r.want {
			t.Errorf("%q:\ngot  %s\nwant %s", r.text, got, r.want)
		}
		var e *syntax.Error
		if !errors.As(err, &e) {
			t.Errorf("%q: got %T, want an error with a place", r.text, err)
		}
	}
}

// TestAccepted: real files use some forms that the RFCs lack, and these are accepted.
func TestAccepted(t *testing.T) {
	files := map[string]string{"more.x": "typedef int more;\n"}
	for text, want := range map[string]string{
		"%#include <x.h>\n%anything ' at \" all\nconst A = 1;":                                             "A = 1",
		"#define A 7\nstruct s { opaque a<A>; };":                                                          "d.Opaque(7)",
		"#define A B\n#define B 3\ntypedef int t[A];":                                                      "type T [3]int32",
		"#include \"more.x\"\nstruct s { more m; };":                                                       "M More",
		"# 10 \"b.x\"\nconst A = 1;":                                                                       "A = 1",
		"union u switch (int a) { case 1: bool a; };":                                                      "AArm bool",
		"union u switch (bool more) { case TRUE: struct { int n; u next; } rest; case FALSE: void; };":     "Rest *URest",
		"union u switch (enum { A, B } a) { case A: void; case B: void; };":                                "A UA",
		"typedef struct s s; struct s { int a; };":                                                         "type S struct",
		"struct s { int a; }; program P { version V { string F(s) = 1; /* reply-limit: a */ } = 1; } = 1;": "limited := int(min(max(args.A, 0), 1048580))",
		"typedef enum { A, B } e;":                                                                         "B E = 1",
		"typedef struct { int a; } s;":                                                                     "type S struct",
		"struct s { unsigned a; u_long b; unsigned short c; long int d; };":                                "C uint32",
		"struct s { netobj a; des_block b; rpcprog_t c; };":                                                "d.Opaque(1024)",
		"program P { version V { struct netbuf F(string) = 1; } = 1; } = 1;":                               "type Netbuf struct",
		"program P { version V { void F(void) = 1; } = 1; } = 1; const A = F;":                             "A = 1",
		"enum e { A = -1, B, C = 0xffffffff };":                                                            "C E = -1",
		"struct n { int a; n *next; }; typedef n *ns; struct s { ns all; };":                               "type Ns []N",
		"struct s { int a; int again<3>; s *next; }; program P { version V { s F(s) = 1; } = 1; } = 1;":    "Next  *S",
		"#if defined(A) || (B && 1 < 2) || !C\nconst D = 1;\n#elif 1\nconst D = 2;\n#endif":                "D = 1",
		"#if A\n#if 1\n@\n#endif\n#elif 2 >= 2\nconst D = 2;\n#else\n@\n#endif":                            "D = 2",
		"#undef X\n#ifndef X\nconst D = 3; // why\n#endif":                                                 "D = 3 // why",
		"const A = \"a \\ text\";":                                                                         "A = \"a \\\\ text\"",
	} {
		code, err := compile(text, files)
		if err != nil || !strings.Contains(strings.ReplaceAll(code, "\t", " "), want) {
			t.Errorf("%q: got %v, want %q in\n%s", text, err, want, code)
		}
	}
}

// TestExpansionsAreBounded: macros and files that grow without end are refused.
func TestExpansionsAreBounded(t *testing.T) {
	var b strings.Builder
	for i := range 12 {
		fmt.Fprintf(&b, "#define M%d %s\n", i, strings.Repeat(fmt.Sprintf("M%d ", i+1), 50))
	}
	_, err := compile(b.String()+"#define M12\nconst A = M0 1;", nil)
	if err == nil || !strings.Contains(err.Error(), "too many others") {
		t.Errorf("macros without bodies: got %v", err)
	}
	_, err = compile(b.String()+"#define M12 1 1\nconst A = M0;", nil)
	if err == nil || !strings.Contains(err.Error(), "more than 1048576 tokens") && !strings.Contains(err.Error(), "too many others") {
		t.Errorf("macros with bodies: got %v", err)
	}
	_, err = compile("#include \"f.x\"", map[string]string{"f.x": strings.Repeat("#include \"f.x\"\n", 100)})
	if err == nil || !strings.Contains(err.Error(), "no more files") {
		t.Errorf("files: got %v", err)
	}
}

// TestCommand: the command line works, and writes the file.
func TestCommand(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "ping.x")
	must.Succeed(t, os.WriteFile(in, []byte("typedef opaque blob<N>; struct s { blob data; };\n"), 0o666))
	t.Setenv("GOPACKAGE", "")
	must.Succeed(t, run([]string{"-D", "N=9", "-ddp", "s.data", "-types", in}))
	code, err := os.ReadFile(filepath.Join(dir, "ping_xdr.go"))
	must.Succeed(t, err)
	for _, want := range []string{"package ping\n", "e.Item(v.Data)", "d.Item(9)"} {
		if !strings.Contains(string(code), want) {
			t.Errorf("no %q in\n%s", want, code)
		}
	}
	for want, args := range map[string][]string{
		"oncrpcgen: one file is needed; -h shows the flags": {},
		"oncrpcgen: -max must be from 4 to 1073741824":      {"-max", "1", in},
		"-ddp t.x:1:1: there is no type t":                  {"-D", "N=9", "-ddp", "t.x", in},
		in + ":1:32: -ddp s.none: s has no field none":      {"-D", "N=9", "-ddp", "s.none", in},
		"open none.x: no such file or directory":            {"none.x"},
		"flag provided but not defined: -z":                 {"-z"},
	} {
		if err := run(args); fmt.Sprint(err) != want {
			t.Errorf("%q: got %v, want %s", args, err, want)
		}
	}
}

// FuzzGenerate: any text gives code that gofmt accepts, or an error with a place.
func FuzzGenerate(f *testing.F) {
	for _, r := range refused {
		f.Add(r.text)
	}
	for _, file := range []string{allFile, nfs3File} {
		src, err := os.ReadFile(file)
		must.Succeed(f, err)
		f.Add(string(src))
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, err := compile(text, map[string]string{"f.x": "typedef int f;\n#include \"f.x\"\n"})
		var e *syntax.Error
		if err != nil && !errors.As(err, &e) {
			t.Errorf("%q: got %v, want an error with a place", text, err)
		}
	})
}
