// Small files through a mount: the tree, the programs' arguments, and their error output.

package bench

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// archiveOf returns the archive of a tree with n files.
func archiveOf(t *testing.T, n int) []byte {
	t.Helper()
	b := &mountRun{rig: MountRig{Scratch: t.TempDir()}, opts: MountOptions{Files: n}}
	if err := b.makeArchive(); err != nil {
		t.Fatalf("makeArchive: %v", err)
	}
	content, err := os.ReadFile(b.archive())
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	return content
}

// The tree has the requested number of files, of all sizes, each after its directory, and is always
// the same.
func TestArchiveOfTheTree(t *testing.T) {
	for _, n := range []int{1, 99, 100, 101, 250} {
		content := archiveOf(t, n)
		if !bytes.Equal(content, archiveOf(t, n)) {
			t.Errorf("%d files: two archives differ", n)
		}
		dirs, files := map[string]int{}, 0
		for r := tar.NewReader(bytes.NewReader(content)); ; {
			h, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("Next: %v", err)
			}
			if y := h.ModTime.UTC().Year(); y != 2001 || h.Uid != os.Geteuid() || h.Gid != os.Getegid() {
				t.Errorf("%s: of %d, owned by %d:%d", h.Name, y, h.Uid, h.Gid)
			}
			if h.Typeflag == tar.TypeDir {
				if _, twice := dirs[h.Name]; twice || h.Mode != 0o755 {
					t.Errorf("directory %s again, or of mode %o", h.Name, h.Mode)
				}
				dirs[h.Name] = 0
				continue
			}
			if _, ok := dirs[path.Dir(h.Name)+"/"]; !ok || h.Size != int64(files*7919%treeFileMax) || h.Mode != 0o644 {
				t.Errorf("file %d: %s of %d bytes, mode %o", files, h.Name, h.Size, h.Mode)
			}
			dirs[path.Dir(h.Name)+"/"]++
			files++
		}
		if files != n || len(dirs) != min(n, treeDirs) {
			t.Errorf("%d files in %d directories, want %d in %d", files, len(dirs), n, min(n, treeDirs))
		}
		for dir, k := range dirs {
			if k < n/treeDirs || k > n/treeDirs+1 {
				t.Errorf("%d files: %d in %s", n, k, dir)
			}
		}
	}
}

func TestArchiveNeedsItsDirectory(t *testing.T) {
	b := &mountRun{rig: MountRig{Scratch: filepath.Join(t.TempDir(), "none")}, opts: MountOptions{Files: 1}}
	if err := b.makeArchive(); !os.IsNotExist(err) {
		t.Errorf("%v", err)
	}
}

// Programs work below the mount being measured, and the kept tree gets a repository.
func TestProgramsWorkOnTheMounts(t *testing.T) {
	asked := fakePrograms(t, map[string]string{"tar": "", "find": "", "rm": "", "git": "", "cp": ""})
	m := newMountTest(t)
	m.opts.Files = 3
	if _, err := m.measure(t); err != nil {
		t.Fatalf("measure: %v", err)
	}
	work := fmt.Sprintf(".nfsrdma-bench-%d", os.Getpid())
	archive, repo, kept := filepath.Join(m.rig.Scratch, "tree.tar"), filepath.Join(m.rig.Scratch, "repository"), filepath.Join(m.exported, work, "kept")
	got := slices.DeleteFunc(asked(), func(line string) bool { return strings.Contains(line, "--git-dir="+repo+" --work-tree="+kept) })
	want := []string{"tar -xf " + archive + " -C " + kept, "cp -r " + repo + " " + kept + "/.git"}
	for _, mount := range []string{MountOurs, MountLoopback} {
		dir := filepath.Join(m.rig.Scratch, "mnt-"+mount, work)
		find, git, fresh := "find "+dir+"/kept -ls", "git -C "+dir+"/kept status", dir+"/fresh-"+mount
		want = append(want, "tar -xf "+archive+" -C "+fresh, find, find, git, git, "rm -r "+fresh)
	}
	if !slices.Equal(got, want) {
		t.Errorf("asked\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// If the mounts show different directories, each directory gets a kept tree, and both are removed.
func TestEachDirectoryHasItsTree(t *testing.T) {
	asked := fakePrograms(t, map[string]string{"tar": ""})
	m := newMountTest(t)
	m.opts.Files = 3
	m.rig.Same, m.rig.Loopback = false, t.TempDir()
	if _, err := m.measure(t); err != nil {
		t.Fatalf("measure: %v", err)
	}
	kept := 0
	for _, line := range asked() {
		if strings.HasSuffix(line, "/kept") {
			kept++
		}
	}
	if kept != 2 || len(asked()) != 4 {
		t.Errorf("%d trees are kept, want 2: %q", kept, asked())
	}
}

// A missing program omits only its rows, and the report names it.
func TestMissingProgramsAreNamed(t *testing.T) {
	fakePrograms(t, map[string]string{"tar": "", "find": "", "rm": ""})
	m := newMountTest(t)
	m.opts.Files = 3
	r, err := m.measure(t)
	if err != nil {
		t.Fatalf("measure: %v", err)
	}
	if want := []string{"git status, cold: there is no git here", "git status, warm: there is no git here"}; !slices.Equal(r.Skipped, want) {
		t.Errorf("%q, want %q", r.Skipped, want)
	}
	var names []string
	for _, p := range r.Pairs {
		names = append(names, p.Name)
	}
	if got := strings.Join(names, "; "); got != "read again, from the cache; untar of 3 files; find -ls, cold; find -ls, warm; rm -r" {
		t.Error(got)
	}
}

// A failing program ends the measurement with its row, its mount and its first error line.
func TestFailingProgramNamesItsRow(t *testing.T) {
	fakePrograms(t, map[string]string{"tar": "", "rm": "", "find": `case "$1" in *mnt-loopback*) echo out of luck >&2; exit 1;; esac`})
	m := newMountTest(t)
	m.opts.Files = 3
	if _, err := m.measure(t); err == nil || err.Error() != "find -ls, cold, loopback: find: out of luck" {
		t.Errorf("%v", err)
	}
}

// An interruption ends the running program, and all files are removed.
func TestInterruptionEndsTheProgram(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	must.Succeed(t, unix.Mkfifo(pipe, 0o600))
	fakePrograms(t, map[string]string{"tar": "", "rm": "", "find": ": > " + pipe + "; exec /bin/sleep 1000"})
	m := newMountTest(t)
	m.opts.Files = 3
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		if f, err := os.Open(pipe); err == nil { // returns when the program opens it
			f.Close()
		}
		cancel()
	}()
	if err := Mount(ctx, m.rig, m.opts, new(MountReport)); err == nil || !strings.HasPrefix(err.Error(), "find -ls, cold, mount: find: ") {
		t.Errorf("%v", err)
	}
	m.nothingLeft(t)
}

// program returns an error with the first line of the program's error output, or with its status if
// that output is empty. Other output is dropped, and the user's settings do not reach the program.
func TestProgram(t *testing.T) {
	t.Setenv("GIT_CONFIG_GLOBAL", "/somewhere")
	t.Setenv("LC_ALL", "de_DE.UTF-8")
	for script, want := range map[string]string{
		"exit 0":                                 "",
		"echo warning >&2":                       "",
		"echo first >&2; echo more >&2; exit 3":  "sh: first",
		"echo; echo >&2; echo first >&2; exit 3": "sh: first",
		"echo said; exit 3":                      "sh: exit status 3",
		`test "$LC_ALL $GIT_CONFIG_GLOBAL $GIT_CONFIG_NOSYSTEM" = "C /dev/null 1"`: "",
	} {
		got := ""
		if err := program(t.Context(), "sh", "-c", script); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
	if err := program(t.Context(), "/no/such/program"); err == nil || !strings.HasPrefix(err.Error(), "/no/such/program: ") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := program(ctx, "sleep", "1000"); err == nil {
		t.Error("a program ran after the end")
	}
}
