// A bill of materials from hand-written settings and from this test's program, and the notices of
// modules with and without a license.

package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// given returns build information with three modules: one as it is, one replaced by another module,
// and one replaced by a directory.
func given() *debug.BuildInfo {
	return &debug.BuildInfo{GoVersion: "go1.26.0", Path: "example.org/m/cmd/p",
		Main: debug.Module{Path: "example.org/m", Version: "v1.2.3"},
		Deps: []*debug.Module{
			{Path: "example.org/a", Version: "v0.1.0", Sum: "h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="},
			{Path: "example.org/b", Version: "v1.0.0", Replace: &debug.Module{Path: "example.org/fork", Version: "v1.0.1+incompatible"}},
			{Path: "example.org/c", Version: "v1.0.0", Replace: &debug.Module{Path: "../c", Version: "(devel)"}},
		},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123"}, {Key: "-compiler", Value: "gc"}},
	}
}

func TestDescribe(t *testing.T) {
	b := describe(given(), [32]byte{1}, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	c := b.Metadata.Component
	if c.Type != "application" || c.Name != "p" || c.Version != "v1.2.3" || c.PURL != "pkg:golang/example.org/m@v1.2.3#cmd/p" || c.Ref != c.PURL ||
		len(c.Hashes) != 1 || c.Hashes[0].Content != "01"+strings.Repeat("00", 31) || b.Metadata.Time != "2026-01-02T03:04:05Z" {
		t.Errorf("%+v at %s", c, b.Metadata.Time)
	}
	if p := b.Metadata.Properties; len(p) != 1 || p[0] != (property{"go:build:vcs.revision", "0123"}) {
		t.Errorf("%+v", p)
	}
	var got []string
	for _, c := range b.Components {
		got = append(got, c.PURL)
	}
	want := "pkg:golang/std@1.26.0 pkg:golang/example.org/a@v0.1.0 pkg:golang/example.org/fork@v1.0.1+incompatible pkg:golang/example.org/c@v1.0.0"
	if strings.Join(got, " ") != want {
		t.Errorf("%q\nwant %s", got, want)
	}
	if p := b.Components[3].Properties; len(p) != 1 || p[0] != (property{"go:replace", "../c"}) || b.Components[2].Properties != nil {
		t.Errorf("%+v, %+v", p, b.Components[2])
	}
	if h := b.Components[1].Hashes; len(h) != 1 || h[0].Content != strings.Repeat("00", 32) {
		t.Errorf("%+v", h)
	}
	// the form that CycloneDX 1.6's schema requires for serial numbers
	if !regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(b.Serial) ||
		b.Serial == describe(given(), [32]byte{2}, time.Time{}).Serial {
		t.Errorf("%s", b.Serial)
	}
}

// TestRun: two runs make the same bill of a real program, with the time in SOURCE_DATE_EPOCH.
func TestRun(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "86400")
	var one, two bytes.Buffer
	for _, w := range []*bytes.Buffer{&one, &two} {
		if err := run(w, os.Args[0], ""); err != nil {
			t.Fatalf("run: %v", err)
		}
	}
	var b bill
	if err := json.Unmarshal(one.Bytes(), &b); err != nil || !bytes.Equal(one.Bytes(), two.Bytes()) || b.Metadata.Time != "1970-01-02T00:00:00Z" {
		t.Errorf("%v\n%s\n%s", err, &one, &two)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "today")
	if err := run(&one, os.Args[0], ""); err == nil || !strings.Contains(err.Error(), "SOURCE_DATE_EPOCH") {
		t.Errorf("run: %v, want %q", err, "SOURCE_DATE_EPOCH")
	}
	if err := run(&one, "main.go", ""); err == nil {
		t.Error("a text is no program")
	}
}

// TestNotices: the toolchain's license and a real module's are included; a module without a license
// is refused.
func TestNotices(t *testing.T) {
	info, err := buildinfo.ReadFile(os.Args[0])
	if err != nil {
		t.Fatalf("buildinfo.ReadFile: %v", err)
	}
	// the test binary has no modules, so this one stands for the programs' modules
	info.Deps = []*debug.Module{{Path: "github.com/spf13/cobra", Version: "v1.10.2"}}
	file := filepath.Join(t.TempDir(), "NOTICES")
	if err := writeNotices(file, info); err != nil {
		t.Fatalf("writeNotices: %v", err)
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), "The Go Authors") || !strings.Contains(string(text), "Module github.com/spf13/cobra v1.10.2: LICENSE.txt\n") {
		t.Errorf("%v: %.300s", err, text)
	}
	info.Deps = []*debug.Module{{Path: "example.org/none", Version: "v1.0.0"}, {Path: "example.org/other", Version: "v1.0.0"}}
	if err := writeNotices(file, info); err == nil || !strings.Contains(err.Error(), "none v1.0.0: it is not in the module cache") || !strings.Contains(err.Error(), "other") {
		t.Error(err)
	}
}

// TestNoticesOfParts: the notices in a module's parts are used only if its root has none. A module
// without any notice is refused.
func TestNoticesOfParts(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	if err := appendNotices(&out, "x", dir); err == nil || !strings.Contains(err.Error(), "no license") {
		t.Errorf("appendNotices: %v, want %q", err, "no license")
	}
	must.Succeed(t, os.MkdirAll(filepath.Join(dir, "part"), 0o755), os.WriteFile(filepath.Join(dir, "part/LICENSE"), []byte("text"), 0o644))
	if got, err := noticesIn(dir); err != nil || strings.Join(got, " ") != "part/LICENSE" {
		t.Errorf("%q, %v", got, err)
	}
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "COPYING.md"), []byte("text"), 0o644))
	if got, err := noticesIn(dir); err != nil || strings.Join(got, " ") != "COPYING.md" {
		t.Errorf("%q, %v", got, err)
	}
}
