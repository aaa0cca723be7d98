// What becomes of calls when the services of a volume fail: the right error, none for other files,
// and nothing that was acknowledged is lost.

package juicefs

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/juicedata/juicefs/pkg/utils"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/juicefs/juicefstest"
)

// deadline is for what takes moments on a machine that does nothing else.
const deadline = 5 * time.Minute

// newVolume is a volume on Redis and S3.
func newVolume(t *testing.T) (url string, redis *juicefstest.Process, s3 *juicefstest.S3) {
	t.Helper()
	tameLogs()
	s3 = juicefstest.StartS3(t)
	redis, url = juicefstest.Redis(t)
	juicefstest.Format(t, url, s3)
	return url, redis, s3
}

// onRedis is a new volume, opened with few retries.
func onRedis(t *testing.T) (f *FS, url string, redis *juicefstest.Process, s3 *juicefstest.S3) {
	t.Helper()
	url, redis, s3 = newVolume(t)
	f = openShared(t, Options{Meta: url, Retries: 2})
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Logf("Close: %v", err)
		}
	})
	return f, url, redis, s3
}

// TestObjectStorageResets: a COMMIT goes on when storage that resets connections is there again,
// and what it has stored is whole.
func TestObjectStorageResets(t *testing.T) {
	f, _, _, s3 := onRedis(t)
	r, _ := create(t, f, f.Root(), "file")
	put(t, f, r, []byte("stored late"), 0)
	var tries atomic.Int32
	again := make(chan struct{})
	s3.Break(func(w http.ResponseWriter, q *http.Request) bool {
		if q.Method == http.MethodPut && tries.Add(1) == 2 {
			close(again)
		}
		return juicefstest.Away(w, q)
	})
	done := make(chan error, 1)
	go func() { done <- f.Sync(r, false) }()
	select {
	case <-again:
	case err := <-done:
		t.Fatalf("the COMMIT ended without the storage: %v", err)
	}
	s3.Mend()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 20)
	if n, err := f.ReadAt(me, r, buf, 0); err != nil || string(buf[:n]) != "stored late" {
		t.Errorf("%q, %v", buf[:n], err)
	}
}

// TestObjectStorageAway: a COMMIT waits for the storage, while other files and all names are
// served, and succeeds once it is there.
func TestObjectStorageAway(t *testing.T) {
	f, url, _, s3 := onRedis(t)
	there, _ := create(t, f, f.Root(), "there")
	put(t, f, there, []byte("stored"), 0)
	commit(t, f, there)
	buf := make([]byte, 6)
	if _, err := f.ReadAt(me, there, buf, 0); err != nil {
		t.Fatalf("ReadAt: %v", err)
	}
	release := make(chan struct{})
	s3.Break(juicefstest.Slow("PUT", release))
	waits, _ := create(t, f, f.Root(), "waits")
	put(t, f, waits, []byte("late"), 0)
	done := make(chan error, 1)
	go func() { done <- f.Sync(waits, false) }()
	for i := range 20 {
		name := fmt.Sprint("other-", i)
		r, _ := create(t, f, f.Root(), name)
		if _, err := f.Getattr(r); err != nil {
			t.Errorf("Getattr: %v", err)
		}
		if err := f.Rename(me, f.Root(), name, f.Root(), name+"~"); err != nil {
			t.Errorf("Rename: %v", err)
		}
		if n, err := f.ReadAt(me, there, buf, 0); err != nil || string(buf[:n]) != "stored" {
			t.Errorf("another file: %q, %v", buf[:n], err)
		}
		if _, err := f.WriteAt(me, r, []byte("x"), 0); err != nil {
			t.Errorf("WriteAt: %v", err)
		}
	}
	select {
	case err := <-done:
		t.Fatalf("COMMIT has returned without its object being stored: %v", err)
	default:
	}
	close(release)
	s3.Mend()
	select {
	case err := <-done:
		if err != nil {
			t.Fatalf("COMMIT: %v", err)
		}
	case <-time.After(deadline):
		t.Fatal("COMMIT does not return though the storage is there")
	}
	other := openShared(t, Options{Meta: url})
	defer closeFS(t, other)
	if n, err := other.ReadAt(me, waits, buf, 0); err != nil || string(buf[:n]) != "late" {
		t.Errorf("at another server: %q, %v", buf[:n], err)
	}
}

// TestObjectStorageRefuses: COMMIT tells why bytes could not be stored, once, and what is written
// next is stored again.
func TestObjectStorageRefuses(t *testing.T) {
	f, _, _, s3 := onRedis(t)
	for i, c := range []struct {
		fault juicefstest.Fault
		want  syscall.Errno
	}{
		{juicefstest.Answer("PUT", 507, "XMinioStorageFull"), syscall.ENOSPC},
		{juicefstest.Answer("PUT", 403, "AccessDenied"), syscall.EIO},
	} {
		r, _ := create(t, f, f.Root(), fmt.Sprint("f", i))
		s3.Break(c.fault)
		put(t, f, r, []byte("refused"), 0)
		if err := f.Sync(r, false); !errors.Is(err, c.want) {
			t.Errorf("COMMIT: %v, want %v", err, c.want)
		}
		s3.Mend()
		if err := f.Sync(r, false); err != nil {
			t.Errorf("the error is told a second time: %v", err)
		}
		put(t, f, r, []byte("taken!!"), 0)
		commit(t, f, r)
		buf := make([]byte, 10)
		if n, err := f.ReadAt(me, r, buf, 0); err != nil || string(buf[:n]) != "taken!!" {
			t.Errorf("then: %q, %v", buf[:n], err)
		}
	}
}

// TestRedisRestarted: while the metadata service is away callers are to ask again, and then all
// that was acknowledged is there.
func TestRedisRestarted(t *testing.T) {
	f, _, redis, _ := onRedis(t)
	const files = 10
	var refs []nfsserver.Ref
	for i := range files {
		r, _ := create(t, f, f.Root(), fmt.Sprint("f", i))
		put(t, f, r, fmt.Append(nil, "content ", i), 0)
		commit(t, f, r)
		refs = append(refs, r)
	}
	redis.Kill()
	if _, err := f.Getattr(refs[0]); !errors.Is(err, nfsserver.ErrBusy) {
		t.Errorf("GETATTR without the metadata service: %v", err)
	}
	if _, _, err := f.Create(me, f.Root(), "new", &nfsserver.SetAttr{}); !errors.Is(err, nfsserver.ErrBusy) {
		t.Errorf("CREATE without the metadata service: %v", err)
	}
	redis.Start()
	for began := time.Now(); ; {
		_, err := f.Getattr(refs[0])
		if err == nil {
			break
		}
		if !errors.Is(err, nfsserver.ErrBusy) || time.Since(began) > deadline {
			t.Fatalf("after the restart: %v", err)
		}
	}
	buf := make([]byte, 20)
	for i, r := range refs {
		if n, err := f.ReadAt(me, r, buf, 0); err != nil || string(buf[:n]) != fmt.Sprint("content ", i) {
			t.Errorf("file %d: %q, %v", i, buf[:n], err)
		}
		if found, _, err := f.Lookup(me, f.Root(), fmt.Sprint("f", i)); err != nil || found != r {
			t.Errorf("name %d: %v", i, err)
		}
	}
}

// TestRedisAwayFromCommit: what could not be committed while the metadata service was away clients
// are to send again: they are told to ask once more, of no error, and then nothing is held against
// the file.
func TestRedisAwayFromCommit(t *testing.T) {
	f, _, redis, s3 := onRedis(t)
	r, _ := create(t, f, f.Root(), "file")
	put(t, f, r, []byte("kept"), 0)
	commit(t, f, r) // with numbers of slices to spare, which JuiceFS would wait for
	release := make(chan struct{})
	s3.Break(juicefstest.Slow(http.MethodPut, release)) // after a second JuiceFS stores and commits by itself
	put(t, f, r, []byte("lost"), 0)
	n, err := f.load(&r)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	redis.Kill()
	close(release)
	s3.Mend()
	f.files.settle(n.ino)
	redis.Start()
	for began := time.Now(); ; {
		if _, err = f.Getattr(r); err == nil {
			break
		}
		if time.Since(began) > deadline {
			t.Fatal(err)
		}
	}
	if err := f.Sync(r, false); !errors.Is(err, nfsserver.ErrBusy) {
		t.Errorf("COMMIT of what is lost: %v", err)
	}
	if err := f.Sync(r, false); err != nil {
		t.Errorf("COMMIT asked for again: %v", err)
	}
	put(t, f, r, []byte("sent"), 0)
	commit(t, f, r)
	buf := make([]byte, 10)
	if got, err := f.ReadAt(me, r, buf, 0); err != nil || string(buf[:got]) != "sent" {
		t.Errorf("then: %q, %v", buf[:got], err)
	}
}

// replace puts another volume in the place of the one there is.
func replace(t *testing.T, url string) {
	t.Helper()
	m, err := connect(url, meta.DefaultConf())
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	format, err := m.Load(true)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	other := *format
	other.UUID = uuid.NewString()
	if err := m.Init(&other, true); err != nil {
		t.Fatalf("Init: %v", err)
	}
	if err := m.Shutdown(); err != nil {
		t.Fatalf("Shutdown: %v", err)
	}
}

// endHeartbeat has JuiceFS find that a volume of this process is not there, and returns whether the
// process would have ended. waiting is what happens before volumes are looked for once more.
func endHeartbeat(t *testing.T, waiting func()) bool {
	t.Helper()
	end, wait := endProcess, waitToLook
	defer func() { endProcess, waitToLook = end, wait }()
	process := false
	endProcess = func() { // opened.mu is held
		process = true
		opened.ended-- // the next test is not to find it
	}
	waitToLook = waiting
	done := make(chan struct{})
	go func() {
		defer close(done)
		utils.GetLogger("juicefs").Error(lastWords[0])
		t.Error("the goroutine goes on, which would end the process")
	}()
	<-done
	return process
}

// TestHeartbeatEnds although its volume is there, since the settings were missing for a moment: the
// process has to be started again, for the other servers would take its session for dead.
func TestHeartbeatEnds(t *testing.T) {
	url, _, _ := newVolume(t)
	f, err := Open(Options{Meta: url, ReadOnly: true, Heartbeat: soleHeartbeat})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	defer closeFS(t, f)
	ends := endHeartbeat(t, func() { t.Error("the service has answered") })
	if _, err := f.Getattr(f.Root()); err != nil || !ends {
		t.Errorf("%v; the process ends: %v", err, ends)
	}
}

// TestHeartbeatEndsUnseen: where the metadata service does not answer when a volume is looked for,
// it is looked for until that does.
func TestHeartbeatEndsUnseen(t *testing.T) {
	for _, gone := range []bool{true, false} {
		t.Run(fmt.Sprint(gone), func(t *testing.T) {
			url, redis, _ := newVolume(t)
			f, err := Open(Options{Meta: url, ReadOnly: true, Heartbeat: soleHeartbeat, Retries: 2})
			if err != nil {
				t.Fatalf("Open: %v", err)
			}
			defer closeFS(t, f)
			if gone { // and the process has another volume, with which it goes on
				replace(t, url)
				other := openNew(t, Local{})
				defer closeFS(t, other)
			}
			redis.Kill()
			waits := 0
			ends := endHeartbeat(t, func() {
				if waits++; waits == 2 {
					redis.Start()
				}
			})
			if _, err := f.Getattr(f.Root()); errors.Is(err, nfsserver.ErrStale) != gone || ends == gone || waits < 2 {
				t.Errorf("%v; the process ends: %v; it was looked for %d times", err, ends, waits)
			}
		})
	}
}

// TestLookChangesNoSettings: a volume that is looked for has its own settings afterwards, whatever
// is in its place: JuiceFS finds by them that it was replaced. It is used meanwhile.
func TestLookChangesNoSettings(t *testing.T) {
	url, _, _ := newVolume(t)
	f := openShared(t, Options{Meta: url})
	defer closeFS(t, f)
	looks := func(want bool) {
		t.Helper()
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := range 10 {
				if _, _, err := f.Create(me, f.Root(), fmt.Sprint(want, i), &nfsserver.SetAttr{}); err != nil {
					t.Errorf("Create: %v", err)
				}
			}
		})
		if there, answered := f.exists(); there != want || !answered {
			t.Errorf("it is there: %v; its service answers: %v", there, answered)
		}
		wg.Wait()
		if is := f.m.GetFormat().UUID; is != f.uuid {
			t.Errorf("the settings are those of %s", is)
		}
	}
	looks(true)
	replace(t, url)
	looks(false)
}

// TestVolumeReplaced: where another volume has taken the place of the one that is served the
// process goes on, and no Ref names anything of the other. (The heartbeat of a read-only client has
// no race of JuiceFS's own: see openShared.)
func TestVolumeReplaced(t *testing.T) {
	url, _, _ := newVolume(t)
	f, err := Open(Options{Meta: url, ReadOnly: true, Heartbeat: 100 * time.Millisecond})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	defer closeFS(t, f)
	if _, err := f.Getattr(f.Root()); err != nil {
		t.Fatalf("Getattr: %v", err)
	}
	replace(t, url)
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		_, err := f.Getattr(f.Root())
		if errors.Is(err, nfsserver.ErrStale) {
			break
		}
		if time.Since(began) > deadline {
			t.Fatalf("the root of a volume that has gone: %v", err)
		}
	}
}
