// Derived identities that a Table forgets and finds again.

package pathtree

import (
	"fmt"
	"strings"
	"testing"
)

// deepTree returns directories at several depths, some with equal names.
func deepTree() map[string][]string {
	dirs := map[string][]string{}
	for _, depth := range []int{1, 3, 8, 9, 31, 32, 40, 260} {
		dir := ""
		for i := range depth {
			name := fmt.Sprintf("d%d-%d", depth, i)
			if i > 0 {
				name = fmt.Sprint("d", i)
			}
			dirs[dir] = append(dirs[dir], name)
			dir = strings.TrimPrefix(dir+"/"+name, "/")
		}
		for i := range 30 {
			dirs[dir] = append(dirs[dir], fmt.Sprint("f", i))
		}
	}
	return dirs
}

// walk finds all objects, and calls f with the identity and hints for each path.
func walk(t *testing.T, table *Table, dirs map[string][]string, f func(path string, id ID, hints string)) {
	t.Helper()
	var down func(path string, id ID)
	down = func(path string, id ID) {
		hints, err := table.Hints(id)
		if err != nil {
			t.Fatalf("Hints of %q: %v", path, err)
		}
		if len(hints) > maxHints+1 {
			t.Fatalf("Hints of %q: %d bytes, want at most %d", path, len(hints), maxHints+1)
		}
		f(path, id, string(hints))
		for _, name := range dirs[path] {
			sub, err := table.Find(id, name)
			if err != nil {
				t.Fatalf("Find %q in %q: %v", name, path, err)
			}
			down(strings.TrimPrefix(path+"/"+name, "/"), sub)
		}
	}
	down("", table.Root())
}

func TestForgottenObjectsAreFound(t *testing.T) {
	dirs := deepTree()
	list := func(path string) []string { return dirs[path] }
	first, err := New(Options{Seed: []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	// a Table of another process, with room for one path
	second, err := New(Options{Seed: []byte("x"), Max: 300})
	if err != nil {
		t.Fatal(err)
	}
	other, err := New(Options{Seed: []byte("y")})
	if err != nil {
		t.Fatal(err)
	}
	walk(t, first, dirs, func(path string, id ID, hints string) {
		if path == "" {
			return
		}
		if err := second.Rediscover(id, []byte(hints), list); err != nil {
			t.Fatalf("Rediscover %q: %v", path, err)
		}
		if got, err := second.Path(id); err != nil || got != path {
			t.Errorf("path: got %q, %v; want %q", got, err, path)
		}
		if got, err := second.Hints(id); err != nil || string(got) != hints {
			t.Errorf("hints of %q: got %x, %v; want %x", path, got, err, hints)
		}
		if err := other.Rediscover(id, []byte(hints), list); err == nil {
			t.Errorf("%q was found in a tree with another seed", path)
		}
	})
	if n := second.Len(); n > 301 {
		t.Errorf("%d objects in memory, want at most 301", n)
	}
}
