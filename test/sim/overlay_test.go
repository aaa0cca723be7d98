// The build under test: this module with a point of preemption after every lock that is released.

package sim

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Between two locked sections in one goroutine any other may run, but on one processor hardly any
// ever does. So the simulation runs a build of the module whose sources have been changed on the
// way to the compiler (go build -overlay): each line that releases a lock is followed by a call of
// preempt.Point. Lines keep their numbers.
var (
	unlocked = regexp.MustCompile(`(?m)^(\s*)((?:\w+\.)+R?Unlock\(\))(\s*//.*)?$`)
	deferred = regexp.MustCompile(`(?m)^(\s*)(defer (?:\w+\.)+R?Unlock\(\))(\s*//.*)?$`)
	clause   = regexp.MustCompile(`(?m)^package \w+$`)
)

// preempted are the folders whose packages are changed.
var preempted = []string{"rnic", "rpcrdma", "transport", "nfsserver", "nfsclient"}

// insertPoints returns src with the calls, or nil where it releases no lock.
func insertPoints(src string) []byte {
	if !unlocked.MatchString(src) && !deferred.MatchString(src) {
		return nil
	}
	src = unlocked.ReplaceAllString(src, "${1}${2}; preempt.Point()${3}")
	src = deferred.ReplaceAllString(src, "${1}defer preempt.Point(); ${2}${3}")
	at := clause.FindStringIndex(src)
	return []byte(src[:at[1]] + `; import "github.com/nfsrdma/nfsrdma/test/sim/preempt"` + src[at[1]:])
}

// writeOverlay writes changed sources to dir and returns the file for -overlay.
func writeOverlay(root, dir string) (string, error) {
	replace := map[string]string{}
	for _, folder := range preempted {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			src, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			changed := insertPoints(string(src))
			if changed == nil {
				return nil
			}
			to := filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
			replace[path] = to
			return os.WriteFile(to, changed, 0o600)
		})
		if err != nil {
			return "", err
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, list, 0o600)
}

// built is the test program with points of preemption, made once.
var built struct {
	once sync.Once
	dir  string
	err  error
}

// program returns the path of the build that children run.
func program(t *testing.T) string {
	t.Helper()
	built.once.Do(func() { built.err = buildProgram() })
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, "sim.test")
}

func buildProgram() error {
	root, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	if built.dir, err = os.MkdirTemp("", "nfsrdma-sim"); err != nil {
		return err
	}
	overlay, err := writeOverlay(root, built.dir)
	if err != nil {
		return err
	}
	args := []string{"test", "-c", "-overlay", overlay, "-o", filepath.Join(built.dir, "sim.test")}
	if raceOn {
		args = slices.Insert(args, 1, "-race")
	}
	cmd := exec.Command("go", append(args, ".")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go test -c -overlay: %w\n%s", err, out)
	}
	return nil
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

func TestInsertPoints(t *testing.T) {
	src := "// Doc.\n\npackage p\n\nfunc f() {\n\tdefer a.mu.Unlock()\n\tb.RUnlock() // why\n\tc.Lock()\n}\n"
	want := "// Doc.\n\npackage p; import \"github.com/nfsrdma/nfsrdma/test/sim/preempt\"\n\nfunc f() {\n" +
		"\tdefer preempt.Point(); defer a.mu.Unlock()\n\tb.RUnlock(); preempt.Point() // why\n\tc.Lock()\n}\n"
	if got := string(insertPoints(src)); got != want {
		t.Errorf("%s", got)
	}
	if got := insertPoints("package p\n"); got != nil {
		t.Errorf("%s", got)
	}
}
