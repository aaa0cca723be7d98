// Which of several servers the Clients of a test begin with, and how long they wait for one.

package nfsclient

import (
	"testing"
	"time"
)

// BeginWith has all Clients of a test begin with one of their servers.
func BeginWith(t *testing.T, server int) {
	was := firstServer
	firstServer = func(int) int { return server }
	t.Cleanup(func() { firstServer = was })
}

// WaitForServers has the Clients of a test pass no server over that is alive and late, as on a busy
// machine. One that is dead refuses them.
func WaitForServers(t *testing.T) {
	was := oneDialTimeout
	oneDialTimeout = time.Minute
	t.Cleanup(func() { oneDialTimeout = was })
}
