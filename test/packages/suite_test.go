// When the suite runs, and its common parts: the source as a repository, the packages, a clean
// system for installing them.

// Package packages builds the Debian packages, installs them in a clean system, and uses, upgrades
// and removes them there.
package packages

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"
)

const (
	// how ./test/run turns the suite on; go test ./... stays quick and hermetic
	asked  = "NFSRDMA_PACKAGES"
	inside = "NFSRDMA_PACKAGES_INSIDE" // the directory of the suite, in its namespaces
)

// The versions to build: the source is the same, so they differ only in what an upgrade must keep.
const older, newer = "1.0.0", "1.1.0"

// tools are the suite's needs besides Go, as root.
var tools = []string{"git", "mmdebstrap", "lintian", "dpkg-deb", "unshare", "ip", "mount", "setpriv", "systemctl", "systemd-analyze", "/dev/fuse"}

func needed(t *testing.T) {
	t.Helper()
	if os.Getenv(asked) == "" {
		t.Skipf("packages are built and installed with %s=1, as in ./test/run", asked)
	}
	machine.NeedRoot(t, "needs root")
	for _, tool := range tools {
		_, err := exec.LookPath(tool)
		if strings.HasPrefix(tool, "/dev/") {
			_, err = os.Stat(tool)
		}
		if err != nil {
			machine.Skip(t, "needs "+tool)
		}
	}
}

// command runs a program in a directory and returns its output.
func command(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = errors.Join(errors.New(name+" "+strings.Join(args, " ")), err, errors.New(string(out)))
	}
	return string(out), err
}

// must runs a command like command, but ends the test if it fails.
func must(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	out, err := command(dir, name, args...)
	if err != nil {
		t.Fatalf("command: %v", err)
	}
	return out
}

// repository makes a repository from the source as it is, uncommitted changes included, with a tag
// for each version.
func repository(t *testing.T, dir string) {
	t.Helper()
	list := must(t, "../..", "git", "ls-files", "-z", "-co", "--exclude-standard")
	for name := range strings.SplitSeq(strings.TrimSuffix(list, "\x00"), "\x00") {
		copyFile(t, filepath.Join("../..", name), filepath.Join(dir, name))
	}
	git := func(args ...string) {
		t.Helper()
		must(t, dir, "git", append([]string{"-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "init.defaultBranch=main"}, args...)...)
	}
	git("init", "-q")
	git("add", "-A")
	for _, version := range []string{older, newer} {
		git("commit", "-q", "--allow-empty", "-m", version)
		git("tag", "v"+version)
		git("tag", "cmd/nfsrdmad-juicefs/v"+version) // as Go names versions of a module below
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	info, err := os.Lstat(from)
	if errors.Is(err, fs.ErrNotExist) {
		return // removed, and not committed
	}
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := os.Readlink(from)
		if err == nil {
			err = os.Symlink(target, to)
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, info.Mode().Perm())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestPackages runs the suite: it builds the packages, then tries them in its own namespaces.
func TestPackages(t *testing.T) {
	if os.Getenv(inside) != "" {
		insideNamespaces(t, os.Getenv(inside))
		return
	}
	needed(t)
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil { // apt reads packages as another user
		t.Fatalf("os.Chmod: %v", err)
	}
	var system sync.WaitGroup
	var noSystem error
	system.Go(func() {
		noSystem = cleanSystem(filepath.Join(dir, "root"))
	})
	ok := t.Run("build", func(t *testing.T) { build(t, dir) })
	system.Wait()
	if noSystem != nil {
		t.Fatal(noSystem)
	}
	if !ok {
		return
	}
	t.Run("check", func(t *testing.T) { check(t, dir) })
	t.Run("manifests", func(t *testing.T) { manifests(t, dir) })
	t.Run("use", func(t *testing.T) { enter(t, dir) })
}

// cleanSystem makes a Debian with this machine's release, from the source that its apt uses, with
// the additions of an ordinary system that these packages use.
func cleanSystem(root string) error {
	release, err := command("/", "sh", "-c", `. /etc/os-release && echo "$VERSION_CODENAME"`)
	if err != nil {
		return err
	}
	args := []string{"--quiet", "--mode=root", "--variant=apt", "--include=mount,man-db,bash-completion,logrotate"}
	settings, err := command("/", "apt-config", "dump")
	if err != nil {
		return err
	}
	for line := range strings.Lines(settings) {
		if strings.HasPrefix(line, "Acquire::") && strings.Contains(line, "::Proxy") {
			args = append(args, "--aptopt="+strings.TrimSpace(line))
		}
	}
	args = append(args, strings.TrimSpace(release), root)
	for _, pattern := range []string{"sources.list", "sources.list.d/*.list", "sources.list.d/*.sources"} {
		files, err := filepath.Glob("/etc/apt/" + pattern)
		if err != nil {
			return err
		}
		args = append(args, files...)
	}
	_, err = command("/", "mmdebstrap", args...)
	return err
}

// enter runs the suite again in a network, mounts and processes of its own, which end with it.
func enter(t *testing.T, dir string) {
	program, err := os.Executable()
	if err != nil {
		t.Fatalf("os.Executable: %v", err)
	}
	cmd := exec.Command("unshare", "--net", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
		machine.LeaveMounts(`""`)+`ip link set lo up && exec "$0" -test.run='^TestPackages$' -test.v`, program)
	cmd.Env = append(os.Environ(), inside+"="+dir, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestPackages")) {
		t.Errorf("%v\n%s", err, out)
	}
}
