// Test settings: the first of several servers, and the wait for one.

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
// dead one refuses them.
func WaitForServers(t *testing.T) {
	was := oneDialTimeout
	oneDialTimeout = time.Minute
	t.Cleanup(func() { oneDialTimeout = was })
}
