// How every source file looks: formatted, opened by a sentence, short, finished.

package test

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Budgets: where a file, and where a function, has to be split.
const (
	maxFileLines = 500
	maxFuncLines = 80
)

// eachFile calls f with each Go file of the module, its path from the root.
func eachFile(t *testing.T, f func(path string, src []byte)) {
	t.Helper()
	files := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != ".." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		src, err := os.ReadFile(path)
		if err == nil {
			files++
			f(strings.TrimPrefix(path, "../"), src)
		}
		return err
	})
	if err != nil || files < 50 {
		t.Fatalf("%d files, %v", files, err)
	}
}

func TestFormat(t *testing.T) {
	eachFile(t, func(path string, src []byte) {
		want, err := format.Source(src)
		if err != nil || !bytes.Equal(src, want) {
			t.Errorf("%s is not as gofmt wants it (%v)", path, err)
		}
	})
}

// A file opens with a sentence that says what it holds, and an empty line. A
// build constraint may stand before, more prose may follow behind a bare "//", and
// a package's or command's own doc may take the sentence's place.
func TestOpenings(t *testing.T) {
	eachFile(t, func(path string, src []byte) {
		lines := strings.Split(string(src), "\n")
		if strings.HasPrefix(lines[0], "//go:build") {
			lines = lines[min(2, len(lines)):]
		}
		n := 0
		for n < len(lines) && strings.HasPrefix(lines[n], "//") {
			n++
		}
		doc := strings.HasPrefix(lines[0], "// Package ") || strings.HasPrefix(lines[0], "// Command ")
		switch {
		case n == 0 || !strings.HasPrefix(lines[0], "// "):
			t.Errorf("%s does not open with a comment", path)
		case doc:
		case !sentence(lines[:n]):
			t.Errorf("%s does not open with one sentence: %q", path, lines[0])
		case n == len(lines) || lines[n] != "":
			t.Errorf("%s: no empty line behind the opening comment", path)
		}
	})
}

// sentence reports whether the first paragraph of a comment is one sentence, of two lines at most.
func sentence(comment []string) bool {
	n := slices.Index(comment, "//")
	if n < 0 {
		n = len(comment)
	}
	return n <= 2 && strings.HasSuffix(comment[n-1], ".")
}

func TestSizes(t *testing.T) {
	fset := token.NewFileSet()
	eachFile(t, func(path string, src []byte) {
		if n := bytes.Count(src, []byte("\n")); n > maxFileLines {
			t.Errorf("%s has %d lines, more than %d", path, n, maxFileLines)
		}
		file, err := parser.ParseFile(fset, path, src, parser.SkipObjectResolution)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := fset.Position(f.End()).Line - fset.Position(f.Pos()).Line + 1; n > maxFuncLines {
				t.Errorf("%s: %s has %d lines, more than %d", path, f.Name.Name, n, maxFuncLines)
			}
		}
	})
}

// Nothing is left for later.
func TestFinished(t *testing.T) {
	eachFile(t, func(path string, src []byte) {
		for _, mark := range []string{"TO" + "DO", "FIX" + "ME", "panic(\"st" + "ub"} {
			if bytes.Contains(src, []byte(mark)) {
				t.Errorf("%s contains %q", path, mark)
			}
		}
	})
}
