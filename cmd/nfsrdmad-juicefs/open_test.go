// Volumes with services that are unreachable when the server starts.

package main

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver/juicefs"
)

// TestVolumeWhoseServiceComesBackLate: when the server starts, Redis is away for longer than the
// server's Redis client retries. The volume is served once Redis is back.
func TestVolumeWhoseServiceComesBackLate(t *testing.T) {
	t.Parallel()
	c := newServers(t)
	c.file("file", "content")
	s := c.servers[0]
	s.kill()
	c.meta.Kill()
	s.start()
	await(t, "the server says that it tries again", func() bool {
		b, err := os.ReadFile(s.log)
		return err == nil && bytes.Contains(b, []byte("it is tried again"))
	})
	client := dial(t, s.addr())
	if _, err := client.Mount(t.Context(), "/vol"); err == nil {
		t.Error("the volume is served without Redis")
	}
	c.meta.Start()
	var fs *nfsclient.FS
	await(t, "the volume is served", func() (ok bool) {
		var err error
		fs, err = client.Mount(t.Context(), "/vol")
		return err == nil
	})
	if b, err := fs.ReadFile(t.Context(), "file"); err != nil || string(b) != "content" {
		t.Errorf("read %q, %v", b, err)
	}
}

// TestVolumeThatCannotBeOpened: an error that comes at once ends the server. After an error that
// comes late, the server retries until the volume opens.
func TestVolumeThatCannotBeOpened(t *testing.T) {
	defer func() { openVolume = juicefs.Open }()
	for _, c := range []struct {
		takes, fails, want int
	}{{1, 1, 1}, {70, 3, 4}, {70, 0, 1}} {
		synctest.Test(t, func(t *testing.T) {
			tries := 0
			openVolume = func(juicefs.Options) (*juicefs.FS, error) {
				time.Sleep(time.Duration(c.takes) * time.Second)
				if tries++; tries <= c.fails {
					return nil, errors.New("connection refused")
				}
				return new(juicefs.FS), nil
			}
			fs, err := open(juicefs.Options{Meta: "redis://127.0.0.1:1/1"})
			if tries != c.want || (err == nil) != (tries > c.fails) || (err == nil) != (fs != nil) {
				t.Errorf("%d tries that take %d s, of which %d fail: %v, %v", tries, c.takes, c.fails, fs, err)
			}
		})
	}
}
