// An object storage that does not respond for longer than JuiceFS waits.

package juicefs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/juicedata/juicefs/pkg/object"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/juicefs/juicefstest"
)

func TestUnanswered(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	for _, c := range []struct {
		err  error
		took time.Duration
		want bool
	}{
		{nil, time.Hour, false},
		{fmt.Errorf("PUT: %w", refused), 0, true},
		{fmt.Errorf("PUT: %w", &net.DNSError{Err: "no such host", Name: "s3"}), 0, true},
		{fmt.Errorf("GET: %w", io.ErrUnexpectedEOF), 0, true},
		{fmt.Errorf("GET: %w", io.EOF), 0, true},
		{context.DeadlineExceeded, 0, true},
		{fmt.Errorf("GET: %w", context.Canceled), time.Minute, true},
		{fmt.Errorf("GET: %w", context.Canceled), time.Second, false},
		{errors.New("AccessDenied"), time.Minute, false},
		{syscall.ENOSPC, 0, false},
	} {
		if got := unanswered(c.err, c.took); got != c.want {
			t.Errorf("%v after %v: %v, want %v", c.err, c.took, got, c.want)
		}
	}
}

// A refuser is an object storage that fails with an error.
type refuser struct {
	object.ObjectStorage
	err error
}

func (r *refuser) Put(context.Context, string, io.Reader, ...object.AttrGetter) error { return r.err }

// TestWantOfRoom: errors of the object storage that mean missing space. Numbers elsewhere in an
// error do not count as a status.
func TestWantOfRoom(t *testing.T) {
	from := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 507}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errors.New("https response error StatusCode: 507, RequestID: 1, api error InsufficientStorage"), true},
		{errors.New("api error XMinioStorageFull: Storage backend has reached its minimum free drive threshold"), true},
		{errors.New("upload failed: status 507"), true},
		{fmt.Errorf("PUT: %w", syscall.ENOSPC), true},
		{fmt.Errorf("PUT: %w", syscall.EDQUOT), true},
		{errors.New("https response error StatusCode: 403, RequestID: 185070AF, api error AccessDenied"), false},
		{fmt.Errorf("PUT: %w", &net.OpError{Op: "read", Net: "tcp", Source: from, Err: syscall.ECONNRESET}), false},
	} {
		r := &watchedStorage{ObjectStorage: &refuser{err: c.err}}
		if err := r.Put(t.Context(), "key", nil); !errors.Is(err, c.err) || r.short() != c.want {
			t.Errorf("%v: %v, %v, want %v", c.err, err, r.short(), c.want)
		}
	}
}

// TestObjectStorageAwayForLong: when all retries have failed, COMMIT and READ return JUKEBOX
// instead of an error, COMMIT once for the lost data. When the storage is back, all data written
// again is there.
func TestObjectStorageAwayForLong(t *testing.T) {
	url, _, s3 := newVolume(t)
	f := openShared(t, Options{Meta: url, Retries: 1})
	defer closeFS(t, f)
	r, _ := create(t, f, f.Root(), "file")
	put(t, f, r, []byte("before"), 0)
	commit(t, f, r)
	other := openShared(t, Options{Meta: url, Retries: 1})
	defer closeFS(t, other)
	s3.Break(juicefstest.Away)
	put(t, f, r, []byte("unsent"), 0)
	if err := f.Sync(r, false); !errors.Is(err, nfsserver.ErrBusy) {
		t.Errorf("COMMIT: %v", err)
	}
	if err := f.Sync(r, false); err != nil {
		t.Errorf("COMMIT asked for again: %v", err)
	}
	buf := make([]byte, 10)
	if n, err := other.ReadAt(me, r, buf, 0); !errors.Is(err, nfsserver.ErrBusy) {
		t.Errorf("READ: %q, %v", buf[:n], err)
	}
	s3.Mend()
	if n, err := other.ReadAt(me, r, buf, 0); err != nil || string(buf[:n]) != "before" {
		t.Errorf("READ, then: %q, %v", buf[:n], err)
	}
	put(t, f, r, []byte("sent!!"), 0)
	commit(t, f, r)
	if n, err := other.ReadAt(me, r, buf, 0); err != nil || string(buf[:n]) != "sent!!" {
		t.Errorf("READ of what was written again: %q, %v", buf[:n], err)
	}
}
