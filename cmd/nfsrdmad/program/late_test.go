// A directory whose file system does not answer when the server starts.

package program

import (
	"context"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs"
)

// TestServeBesideHungDirectory: the others are served, and it is once it answers.
func TestServeBesideHungDirectory(t *testing.T) {
	defer func(wait time.Duration) { newFS, openWait = osfs.New, wait }(openWait)
	hung, ok := t.TempDir(), t.TempDir()
	answers := make(chan struct{})
	newFS = func(dir string, o osfs.Options) (*osfs.FS, error) {
		if dir == hung {
			<-answers
		}
		return osfs.New(dir, o)
	}
	openWait = 100 * time.Millisecond
	o := &options{ephemeral: true}
	srv, _, err := newServer(o, []string{hung + "=/hung", ok + "=/ok"})
	if err != nil {
		t.Fatal(err)
	}
	svc, err := srv.Start(nfsserver.Listen{TCP: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	c, err := nfsclient.Dial(ctx, svc.TCPAddr.String(), nfsclient.Options{Transport: nfsclient.TCP})
	if err != nil {
		t.Fatal(err)
	}
	mount := func(name string) {
		for {
			if _, err := c.Mount(ctx, name); err == nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
	mount("/ok") // it may have been late, too
	if _, err := c.Mount(ctx, "/hung"); err == nil {
		t.Error("/hung is served")
	}
	close(answers)
	mount("/hung")
	c.Close()
	if err := svc.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
}
