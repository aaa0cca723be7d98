// This machine's programs, for guests without them.

package guest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// FromHost copies a program of this machine, its libraries and its loader into the guest's
// /tmp/host, and returns the command. If this machine lacks the program, the error is
// exec.LookPath's.
func (g *Guest) FromHost(ctx context.Context, name string) (command string, err error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, "ldd", path).Output()
	if err != nil {
		return "", fmt.Errorf("ldd %s: %w", path, err)
	}
	loader, copies := "", []string{path}
	for _, word := range strings.Fields(string(out)) {
		if strings.HasPrefix(word, "/") {
			copies = append(copies, word)
			if strings.Contains(word, "/ld-") {
				loader = filepath.Base(word)
			}
		}
	}
	for _, from := range copies {
		if err := g.copyIn(ctx, from); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("/tmp/host/%s --library-path /tmp/host /tmp/host/%s", loader, filepath.Base(path)), nil
}

// copyIn copies one file unless the file exists in the guest, because programs may be running from
// it.
func (g *Guest) copyIn(ctx context.Context, from string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	base := filepath.Base(from)
	shared := filepath.Join(g.Share, base)
	if err := os.WriteFile(shared, b, 0o755); err != nil {
		return err
	}
	defer os.Remove(shared)
	_, err = g.Run(ctx, fmt.Sprintf("mkdir -p /tmp/host && { [ -e /tmp/host/%[1]s ] || cp /share/%[1]s /tmp/host/; } && chmod 755 /tmp/host/%[1]s", base))
	return err
}
