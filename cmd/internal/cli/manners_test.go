// Common behavior of commands: one line per error, manual pages of helpers, versions, exit
// statuses.

package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
)

// An exit status survives wrapping, and counts as reported errors.
func TestExitErrorIsReported(t *testing.T) {
	err := fmt.Errorf("mount: %w", ExitError(32))
	var exit ExitError
	if !errors.Is(err, ErrReported) || !errors.As(err, &exit) || exit != 32 || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if ExitError(2).Error() != ErrReported.Error() {
		t.Errorf("%q", ExitError(2).Error())
	}
}

// With several concurrent reporters each line is whole, and each error is counted.
func TestReporterIsSafeForGoroutines(t *testing.T) {
	var out strings.Builder
	r := NewReporter(&out, "rm", nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				r.Report(errors.New("cannot remove 'x'"))
				r.Warn("skipped")
			}
		})
	}
	wg.Wait()
	report, warn := strings.Count(out.String(), "nfsrdma: rm: cannot remove 'x'\n"), strings.Count(out.String(), "nfsrdma: rm: skipped\n")
	if r.Failed() != 400 || report != 400 || warn != 400 || strings.Count(out.String(), "\n") != 800 {
		t.Errorf("%d failures, %d reports, %d warnings", r.Failed(), report, warn)
	}
}

// A reason is the system's message with a capital letter, found inside wrapped errors.
func TestReasonsOfWrappedErrors(t *testing.T) {
	for want, err := range map[string]error{
		"Permission denied":       &os.LinkError{Op: "link", Old: "a", New: "b", Err: syscall.EACCES},
		"No space left on device": errors.Join(errors.New("first"), fmt.Errorf("close: %w", syscall.ENOSPC)),
		"file already closed":     fs.ErrClosed,
	} {
		if got := Reason(err); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A multi-line error becomes one line, and a helper's page is in section 8 under its name.
func TestOneLineOfMany(t *testing.T) {
	root := testRoot()
	if got := OneLine(root, errors.Join(errors.New("first"), errors.New("second\r\n"))); got != "first; second" {
		t.Errorf("%q", got)
	}
	if got := OneLine(root, fmt.Errorf("unknown command %w", errors.New("y"))); got != "unknown command y" {
		t.Errorf("what a server says was taken for a mistake of the user: %q", got)
	}
}

func TestManualPagesOfHelpers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "man")
	root := &cobra.Command{Use: "prog"}
	helper := &cobra.Command{Use: "mount.prog SERVER DIR", Short: "Mount it", Run: func(*cobra.Command, []string) {}}
	Prepare(root, helper)
	root.SetArgs([]string{"man", dir})
	if err := root.Execute(); err != nil {
		t.Fatalf("Execute: %v", err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "man8", "mount.prog.8"))
	if text := string(page); err != nil || !strings.Contains(text, `"MOUNT.PROG" "8"`) || !strings.Contains(text, "Mount it") {
		t.Errorf("%v: %.200s", err, page)
	}
	for _, bad := range []string{filepath.Join(dir, "man8", "mount.prog.8", "x"), "/proc/self/none"} {
		root.SetArgs([]string{"man", bad})
		if err := root.Execute(); err == nil || !strings.Contains(OneLine(root, err), filepath.Dir(bad)) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// --version shows the build's version, and commands do not print their usage with an error.
func TestVersionAndSilence(t *testing.T) {
	version, _ := Build()
	root := testRoot()
	var out strings.Builder
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs([]string{"--version"})
	root.Annotations = map[string]string{Protocols: "protocols: X 1"}
	SetVersion(root)
	if err := root.Execute(); err != nil || version == "" || !strings.HasPrefix(out.String(), "prog version "+version+"\n") ||
		!strings.Contains(out.String(), "built with "+runtime.Version()+" for ") || !strings.HasSuffix(out.String(), "\nprotocols: X 1\n") {
		t.Errorf("%q, %v; want %q", &out, err, version)
	}
	out.Reset()
	root.SetArgs([]string{"copy", "a"})
	if err := root.Execute(); err == nil || out.Len() > 0 {
		t.Errorf("%v, and beside it %q", err, &out)
	}
}

// --version shows the commit if the build recorded it, and whether there were uncommitted changes.
func TestCommitOfVersion(t *testing.T) {
	settings := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123abc"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}, {Key: "vcs.modified", Value: "false"}}
	if got := commit(settings); got != "commit 0123abc of 2026-01-02T03:04:05Z\n" {
		t.Errorf("%q", got)
	}
	settings[2].Value = "true"
	if got := commit(settings); !strings.Contains(got, "not committed") {
		t.Errorf("%q", got)
	}
	if got := commit(nil); got != "" {
		t.Errorf("%q", got)
	}
}
