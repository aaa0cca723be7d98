// The two modules of JuiceFS, a library and the program that serves it, are built alike.

package test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A goMod is the compared part of a go.mod.
type goMod struct {
	required map[string]string // versions by path
	replaced map[string]string // the replacement for "path version", a folder from the root
}

func readGoMod(t *testing.T, folder string) goMod {
	t.Helper()
	out, err := exec.Command("go", "mod", "edit", "-json", filepath.Join("..", folder, "go.mod")).Output()
	if err != nil {
		t.Fatalf("go mod edit: %v", err)
	}
	type version struct{ Path, Version string }
	var parsed struct {
		Require []version
		Replace []struct{ Old, New version }
	}
	if err := json.Unmarshal(out, &parsed); err != nil {
		t.Fatal(err)
	}
	m := goMod{map[string]string{}, map[string]string{}}
	for _, r := range parsed.Require {
		m.required[r.Path] = r.Version
	}
	for _, r := range parsed.Replace {
		by := r.New.Path + " " + r.New.Version
		if strings.HasPrefix(r.New.Path, ".") {
			by = filepath.Join(folder, r.New.Path)
		}
		m.replaced[r.Old.Path+" "+r.Old.Version] = by
	}
	return m
}

// TestJuiceFSModules: the program is built with the versions that the library is tested with. Go
// takes only the main module's replaces, so the program repeats the library's.
func TestJuiceFSModules(t *testing.T) {
	const library = "nfsserver/juicefs"
	lib, prog := readGoMod(t, library), readGoMod(t, "cmd/nfsrdmad-juicefs")
	for path, want := range lib.required {
		if got := prog.required[path]; got != want && got != "" {
			t.Errorf("the program requires %s %s, the library %s", path, got, want)
		}
	}
	lib.replaced[module+library+" "] = library
	for old, want := range lib.replaced {
		if got := prog.replaced[old]; got != want {
			t.Errorf("the program replaces %s by %q, the library by %q", old, got, want)
		}
	}
	if len(prog.replaced) != len(lib.replaced) {
		t.Errorf("the program replaces %d modules, want those of the library and the library: %d", len(prog.replaced), len(lib.replaced))
	}
}
