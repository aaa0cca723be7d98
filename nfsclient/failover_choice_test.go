// Settings for tests: the server that a Client begins with, and how long a Client waits for a
// server.

package nfsclient

import (
	"testing"
	"time"
)

// BeginWith makes all Clients of a test begin with one of their servers.
func BeginWith(t *testing.T, server int) {
	was := firstServer
	firstServer = func(int) int { return server }
	t.Cleanup(func() { firstServer = was })
}

// WaitForServers makes a test's Clients wait for live but slow servers, as on a busy machine. A
// dead server refuses connections, so the longer wait costs no time.
func WaitForServers(t *testing.T) {
	was := oneDialTimeout
	oneDialTimeout = time.Minute
	t.Cleanup(func() { oneDialTimeout = was })
}
