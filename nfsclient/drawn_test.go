// Which of several servers the Clients of a test begin with.

package nfsclient

import "testing"

// BeginWith has all Clients of a test begin with one of their servers.
func BeginWith(t *testing.T, server int) {
	was := drawn
	drawn = func(int) int { return server }
	t.Cleanup(func() { drawn = was })
}
