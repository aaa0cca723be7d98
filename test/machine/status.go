// Lines of a process's status, for tests of its identity.

package machine

import (
	"os"
	"strings"
	"testing"
)

// Status returns the lines of a /proc/.../status file by their names, with single blanks. It
// returns nil if the thread has ended.
func Status(t testing.TB, path string) map[string]string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	lines := map[string]string{}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		lines[name] = strings.Join(strings.Fields(value), " ")
	}
	return lines
}
