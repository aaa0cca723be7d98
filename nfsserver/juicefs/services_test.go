// The FS on real services: Redis or PostgreSQL for the metadata, and an S3 server for the contents.

package juicefs

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/fstest"
	"github.com/nfsrdma/nfsrdma/nfsserver/juicefs/juicefstest"
)

// onServices runs a test on a volume of each metadata service.
func onServices(t *testing.T, test func(t *testing.T, url string)) {
	s3 := juicefstest.StartS3(t)
	for _, s := range []struct {
		name  string
		start func(testing.TB) (*juicefstest.Process, string)
	}{{"redis", juicefstest.Redis}, {"postgres", juicefstest.Postgres}} {
		t.Run(s.name, func(t *testing.T) {
			tameLogs()
			_, url := s.start(t)
			juicefstest.Format(t, url, s3)
			test(t, url)
		})
	}
}

// openShared opens a volume as a further server, whose first heartbeat comes only after the test.
// JuiceFS starts the heartbeat's goroutine before it writes the session number, which the goroutine
// reads. The race detector would report that.
func openShared(t *testing.T, o Options) *FS {
	t.Helper()
	o.Heartbeat = soleHeartbeat
	f, err := Open(o)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return f
}

// TestServices: on services the FS passes the tests of every FS. Each test has a directory in the
// volume as its root.
func TestServices(t *testing.T) {
	onServices(t, func(t *testing.T, url string) {
		parent := openShared(t, Options{Meta: url})
		defer closeFS(t, parent)
		var n atomic.Int32
		fstest.Run(t, func(t *testing.T) nfsserver.FS {
			dir := fmt.Sprint("check-", n.Add(1))
			if _, _, err := parent.Mkdir(nfsserver.Cred{}, parent.Root(), dir, &nfsserver.SetAttr{Mask: nfsserver.SetMode | nfsserver.SetUID | nfsserver.SetGID, Mode: 0o755, UID: me.UID, GID: me.GID}); err != nil {
				t.Fatalf("Mkdir: %v", err)
			}
			return openShared(t, Options{Meta: url, Dir: dir})
		}, fstest.Allocates, fstest.ChargesHoles)
	})
}
