// Calls while a volume's services fail: they get the right error, calls on other files get none,
// and no acknowledged data is lost.

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

// deadline limits steps that take moments on an idle machine.
const deadline = 5 * time.Minute

// newVolume makes a volume on Redis and S3.
func newVolume(t *testing.T) (url string, redis *juicefstest.Process, s3 *juicefstest.S3) {
	t.Helper()
	tameLogs()
	s3 = juicefstest.StartS3(t)
	redis, url = juicefstest.Redis(t)
	juicefstest.Format(t, url, s3)
	return url, redis, s3
}

// onRedis makes and opens a volume with few retries.
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

// TestObjectStorageResets: a storage has reset connections. When it is back, a COMMIT continues,
// and its objects are complete.
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
// served, and succeeds once the storage is back.
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

// TestObjectStorageRefuses: COMMIT reports once why data could not be stored, and later writes are
// stored again.
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

// TestRedisRestarted: callers retry while the metadata service is away. When it is back all
// acknowledged data is there.
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

// TestRedisAwayFromCommit: while the metadata service is away, data cannot be committed. Clients
// get JUKEBOX and send the data again. Afterwards the file has no error.
func TestRedisAwayFromCommit(t *testing.T) {
	f, _, redis, s3 := onRedis(t)
	r, _ := create(t, f, f.Root(), "file")
	put(t, f, r, []byte("kept"), 0)
	commit(t, f, r) // now JuiceFS has spare slice numbers, and need not wait for some
	release := make(chan struct{})
	// After a second JuiceFS stores and commits data by itself.
	s3.Break(juicefstest.Slow(http.MethodPut, release))
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

// replace replaces the volume at url by another volume.
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

// endHeartbeat makes JuiceFS find a volume of this process missing, and returns whether the process
// would have ended. waiting runs before the next check of the volumes.
func endHeartbeat(t *testing.T, waiting func()) bool {
	t.Helper()
	end, wait := endProcess, waitToLook
	defer func() { endProcess, waitToLook = end, wait }()
	process := false
	endProcess = func() { // called with opened.mu held
		process = true
		opened.ended-- // undoes the count, for the next test
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

// TestHeartbeatEnds: the volume exists, but its settings were missing for a moment. The process
// must be restarted, because other servers would consider its session dead.
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

// TestHeartbeatEndsUnseen: while the metadata service does not answer, the check of the volume is
// repeated.
func TestHeartbeatEndsUnseen(t *testing.T) {
	for _, gone := range []bool{true, false} {
		t.Run(fmt.Sprint(gone), func(t *testing.T) {
			url, redis, _ := newVolume(t)
			f, err := Open(Options{Meta: url, ReadOnly: true, Heartbeat: soleHeartbeat, Retries: 2})
			if err != nil {
				t.Fatalf("Open: %v", err)
			}
			defer closeFS(t, f)
			if gone { // the process serves another volume too, and continues with that
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
			if _, err := f.Getattr(f.Root()); errors.Is(err, nfsserver.ErrStale) != gone {
				t.Errorf("GETATTR: %v, want ErrStale: %v", err, gone)
			}
			if ends == gone {
				t.Errorf("the process ends: %v, want %v", ends, !gone)
			}
			if waits < 2 {
				t.Errorf("%d pauses between checks, want at least 2", waits)
			}
		})
	}
}

// TestLookChangesNoSettings: a volume that is checked keeps its own settings, even if another
// volume is in its place. From its settings JuiceFS notices the replacement. Calls use the volume
// during the check.
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

// TestVolumeReplaced: if another volume replaces the served one, the process continues, and no Ref
// leads to an object in the other volume. (The heartbeat of a read-only client does not have the
// race described at openShared.)
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
