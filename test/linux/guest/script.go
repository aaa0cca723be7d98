// Running scripts in a guest.

package guest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ExitError is the error of a script with a nonzero exit status.
type ExitError struct {
	Code   int
	Output string
}

func (e *ExitError) Error() string {
	return fmt.Sprintf("script ended with code %d:\n%s", e.Code, e.Output)
}

// Run runs shell commands in the guest and returns their output, including standard error. The
// functions in lib.sh are available. If ctx ends first, the script may still be running, so the
// guest accepts no more scripts; Close still works.
func (g *Guest) Run(ctx context.Context, script string) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.dead != nil {
		return "", g.dead
	}
	base := filepath.Join(g.Share, "q", strconv.FormatInt(g.script.Add(1), 10))
	// The guest must only see the complete file.
	if err := os.WriteFile(base+".new", []byte(". /harness/lib.sh\n"+script+"\n"), 0o644); err != nil {
		return "", err
	}
	if err := os.Rename(base+".new", base+".sh"); err != nil {
		return "", err
	}
	err := g.await(ctx, base+".rc")
	out, _ := os.ReadFile(base + ".out")
	if err != nil {
		g.dead = fmt.Errorf("an earlier script did not end: %w", err)
		return string(out), fmt.Errorf("%w; output so far:\n%s\nconsole:\n%s", err, out, g.Console())
	}
	code, err := os.ReadFile(base + ".rc")
	if err != nil {
		return string(out), err
	}
	rc, err := strconv.Atoi(strings.TrimSpace(string(code)))
	if err != nil {
		return string(out), fmt.Errorf("exit code %q: %w", code, err)
	}
	if rc != 0 {
		return string(out), &ExitError{Code: rc, Output: string(out)}
	}
	return string(out), nil
}
