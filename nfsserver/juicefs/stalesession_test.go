// A session that other clients have ended.

package juicefs

import (
	"testing"

	"github.com/juicedata/juicefs/pkg/utils"
	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// TestSessionThatOthersEnded: the process ends if clients hold locks in the session, and only then.
func TestSessionThatOthersEnded(t *testing.T) {
	url, _, _ := newVolume(t)
	f := openShared(t, Options{Meta: url})
	defer closeFS(t, f)
	r, _, err := f.Create(superuser, f.Root(), "file", &nfsserver.SetAttr{})
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	end := endProcess
	defer func() { endProcess = end }()
	ends := func(sid uint64, want bool) {
		t.Helper()
		ended := false
		endProcess = func() { ended = true }
		utils.GetLogger("juicefs").Warnf("Session %d was stale and cleaned up, but now it comes back again", sid)
		if ended != want {
			t.Errorf("the process ends: %v", ended)
		}
	}
	if f.sid == 0 {
		t.Error("there is no session")
	}
	f.sid = 1 << 40 // a number that no volume left open by another test has
	ends(f.sid, false)
	l, err := f.OpenLocks(r)
	if err != nil {
		t.Fatalf("OpenLocks: %v", err)
	}
	if err := l.Set(0, 9, nfsserver.Exclusive); err != nil {
		t.Fatalf("Set: %v", err)
	}
	ends(f.sid, true)
	ends(f.sid+1, false)
	if err := l.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	ends(f.sid, false)
}
