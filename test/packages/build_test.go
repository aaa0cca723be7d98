// The packages themselves: the same bytes from any directory, lintian's findings, the version
// output from the programs, and the bill of materials.

package packages

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// programs are those with a package. The package has the program's name.
var programs = []string{"nfsrdma", "nfsrdmad", "nfsrdmad-juicefs"}

// build makes the packages of both versions, and those of the older one again from another
// directory.
func build(t *testing.T, dir string) {
	source, elsewhere := filepath.Join(dir, "source"), filepath.Join(dir, "else", "where")
	repository(t, source)
	// Leave out services that the tests do not use, as in all tests of that module.
	tags, err := os.ReadFile("../../nfsserver/juicefs/tags")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	t.Setenv("JUICEFS_TAGS", strings.TrimSpace(string(tags)))
	must(t, dir, "git", "clone", "-q", source, elsewhere)
	made := func(source, version, out string) {
		t.Helper()
		must(t, source, "git", "-c", "advice.detachedHead=false", "checkout", "-q", "v"+version)
		must(t, source, "deploy/build", filepath.Join(dir, out))
	}
	made(source, older, older)
	made(elsewhere, older, "again")
	made(source, newer, newer)
	same(t, filepath.Join(dir, older), filepath.Join(dir, "again"))
	untagged(t, dir, source)
}

// untagged builds a commit without tags: it leads to the topmost release in the changelog, and has
// its notes.
func untagged(t *testing.T, dir, source string) {
	t.Helper()
	clone, out := filepath.Join(dir, "untagged"), filepath.Join(dir, "out")
	must(t, dir, "git", "clone", "-q", "--no-tags", source, clone)
	changes, err := os.ReadFile(filepath.Join(clone, "CHANGELOG.md"))
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	m := regexp.MustCompile(`(?m)^## (\d\S*)`).FindSubmatch(changes)
	if m == nil {
		t.Fatal("the changelog has no release")
	}
	release := string(m[1])
	said := must(t, clone, "deploy/build", out, "nfsrdma")
	for _, step := range []string{"compiling nfsrdma for ", "documents and bill of materials of nfsrdma", "package of nfsrdma ", "release notes and checksums"} {
		if !strings.Contains(said, "build: "+step) {
			t.Errorf("the build says %q, want %q", said, step)
		}
	}
	debs, err := filepath.Glob(filepath.Join(out, "*.deb"))
	if err != nil || len(debs) != 1 {
		t.Fatalf("%q, %v", debs, err)
	}
	version := strings.TrimSpace(must(t, out, "dpkg-deb", "-f", debs[0], "Version"))
	for _, order := range [][]string{{version, "lt", release + "-1"}, {version, "gt", "0.0.0~20991231235959.ffffffffffff-1"}} {
		must(t, out, "dpkg", append([]string{"--compare-versions"}, order...)...)
	}
	upstream := strings.Replace(strings.TrimSuffix(version, "-1"), "~", "-", 1)
	if said := must(t, "/", filepath.Join(out, "bin/nfsrdma"), "--version"); !strings.HasPrefix(said, "nfsrdma version v"+upstream+"\n") {
		t.Errorf("the program says %q, its package %s", said, version)
	}
	notes, err := os.ReadFile(filepath.Join(out, "RELEASE_NOTES.md"))
	if want := must(t, clone, "deploy/notes", release); err != nil || want == "" || string(notes) != want {
		t.Errorf("notes of %d bytes, want the %d of %s (%v)", len(notes), len(want), release, err)
	}
}

// same compares two directories, names and bytes.
func same(t *testing.T, a, b string) {
	t.Helper()
	one, other := contents(t, a), contents(t, b)
	if len(one) < 3*len(programs)+2 || len(one) != len(other) {
		t.Errorf("%d files, and %d", len(one), len(other))
	}
	for name, text := range one {
		if !bytes.Equal(text, other[name]) {
			t.Errorf("%s is not the same when it is built again", name)
		}
	}
}

func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for _, pattern := range []string{"*", "bin/*"} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatalf("filepath.Glob: %v", err)
		}
		for _, name := range names {
			if info, err := os.Stat(name); err != nil || info.IsDir() {
				continue
			}
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatalf("os.ReadFile: %v", err)
			}
			rel, _ := filepath.Rel(dir, name)
			all[rel] = text
		}
	}
	return all
}

// check checks the built packages without installing them.
func check(t *testing.T, dir string) {
	out := filepath.Join(dir, older)
	debs, err := filepath.Glob(filepath.Join(out, "*.deb"))
	if err != nil || len(debs) != len(programs) {
		t.Fatalf("%q, %v", debs, err)
	}
	// These are packages for bookworm and its successors: lintian hints that some files were
	// elsewhere once.
	if said, err := command(out, "lintian", append([]string{"--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0"}, debs...)...); err != nil {
		t.Errorf("lintian: %v", err)
	} else if strings.TrimSpace(said) != "" {
		t.Logf("lintian: %s", said)
	}
	unit(t, filepath.Join(out, "bin"), "nfsrdmad-juicefs")
	must(t, out, "sha256sum", "--check", "--quiet", "--strict", "SHA256SUMS")
	commit := strings.TrimSpace(must(t, filepath.Join(dir, "source"), "git", "rev-parse", "v"+older))
	for _, name := range programs {
		said := must(t, "/", filepath.Join(out, "bin", name), "--version")
		for _, want := range []string{name + " version v" + older + "\n", "\ncommit " + commit + " of 20", "\nprotocols: NFS 3, MOUNT 3", "RoCEv2"} {
			if !strings.Contains(said, want) || strings.Contains(said, "not committed") {
				t.Errorf("%s --version lacks %q:\n%s", name, want, said)
			}
		}
		bill(t, filepath.Join(out, "bin", name), filepath.Join(out, name+".cdx.json"))
	}
}

// unit: systemd-analyze finds no fault in a server's units, and an exposure below its threshold.
// The units for nfsrdmad have their own test beside the server.
func unit(t *testing.T, bin, name string) {
	t.Helper()
	dir := t.TempDir()
	args := []string{"verify", "--man=no"}
	for _, kind := range []string{".service", ".socket"} {
		text, err := os.ReadFile("../../deploy/" + name + kind)
		if err != nil {
			t.Fatalf("os.ReadFile: %v", err)
		}
		put(t, filepath.Join(dir, name+kind), strings.ReplaceAll(string(text), "/usr/local/sbin", bin), 0o644)
		args = append(args, filepath.Join(dir, name+kind))
	}
	if said := must(t, dir, "systemd-analyze", args...); said != "" {
		t.Error(said)
	}
	must(t, dir, "systemd-analyze", "security", "--offline=true", "--threshold=32", args[2])
}

// bill compares a bill of materials with the toolchain's report on the program.
func bill(t *testing.T, program, file string) {
	t.Helper()
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatalf("buildinfo.ReadFile: %v", err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	var b struct {
		BomFormat, SpecVersion string
		Metadata               struct {
			Component struct{ Name, Version string }
		}
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(text, &b); err != nil || b.BomFormat != "CycloneDX" || b.Metadata.Component.Version != "v"+older || b.Metadata.Component.Name != filepath.Base(program) {
		t.Errorf("%s: %+v, %v", file, b.Metadata, err)
	}
	want := []string{"std " + info.GoVersion}
	for _, m := range info.Deps {
		if m.Replace != nil && !strings.HasPrefix(m.Replace.Path, ".") {
			m = m.Replace
		}
		want = append(want, m.Path+" "+m.Version)
	}
	var got []string
	for _, c := range b.Components {
		got = append(got, c.Name+" "+c.Version)
	}
	if !slices.Equal(got, want) || len(want) < 5 {
		t.Errorf("%s has %q, want %q", file, got, want)
	}
}
