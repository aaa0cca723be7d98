// The order of writes, of size changes between them, and of a concurrent Sync.

package datapath

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A Write that is called during a size change takes effect after it, even if the Write first waited
// for memory.
func TestWritesWaitForTruncate(t *testing.T) {
	for _, scarce := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m := newModel(t, 1)
			e, f, h := rig(t, m, Config{WriteSize: 4096, DirtyFile: 64 << 10, DirtyMount: 16 << 10})
			release := func() {}
			var others []*Handle
			if scarce { // other files use all the memory
				for i := range byte(8) {
					r, was := m.hang(handleOf(2+i)), release
					release = func() { was(); r() }
					g := e.File(handleOf(2 + i))
					others = append(others, g.Open())
					g.Release()
					ctx, cancel := context.WithTimeout(bg, time.Second)
					_, _ = others[i].Write(ctx, nil, pattern(16<<10), 0, nfs3.Unstable)
					cancel()
				}
			}
			done := make(chan error, 1)
			start := func() {
				go func() {
					_, err := h.Write(bg, nil, []byte("after"), 100, nfs3.Unstable)
					done <- err
				}()
				synctest.Wait()
			}
			if scarce {
				start()
				if len(done) > 0 {
					t.Fatal("there is memory: the test tests nothing")
				}
			}
			err := f.Truncate(bg, 10, func(ctx context.Context) error {
				if !scarce {
					start()
				}
				release()
				time.Sleep(time.Minute)
				if len(done) > 0 || e.Stats().Dirty > 0 {
					t.Error("the write was accepted while the size was being set")
				}
				return m.truncate(ctx, handleOf(1), 10)
			})
			if err = errors.Join(err, <-done, h.Sync(bg)); err != nil {
				t.Errorf("truncate, write and sync: %v", err)
			}
			if got := m.content(handleOf(1)); len(got) != 105 || string(got[100:]) != "after" {
				t.Errorf("content: got %q, want 100 bytes and \"after\"", got)
			}
			for _, o := range others {
				_ = o.Close()
			}
		})
	}
}

// When data replaces unsent data, the callers that wait for the unsent data wait for the new data.
func TestOverwritingDataKeepsItsObligations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1)
		_, f, h := rig(t, m, Config{WriteSize: 4096})
		release := m.hang(handleOf(1))
		defer release()
		mustWrite(t, h, pattern(4096), 0) // this WRITE is in flight, so later data has to wait
		synctest.Wait()
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		if n, err := h.Write(ctx, 1, []byte("stable"), 0, nfs3.FileSync); n != 6 || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%d, %v", n, err)
		}
		owed := f.seq
		if _, err := h.Write(bg, 2, []byte("other user"), 0, nfs3.Unstable); err != nil {
			t.Fatalf("write: %v", err)
		}
		x := f.ext[0]
		got := [3]any{x.seq, x.how, x.cred}
		if want := [3]any{owed, nfs3.FileSync, Cred(2)}; got != want {
			t.Errorf("number, stability and credentials: got %v, want %v", got, want)
		}
	})
}

// The server restarts within an extent that it accepts in parts. A Sync reports this even after the
// data was overwritten.
func TestRestartInTheMiddleOfAnExtent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1)
		half := &halfModel{model: m}
		e := New(Config{WriteSize: 4096, FlushAfter: time.Hour}, half)
		f := e.File(handleOf(1))
		h := f.Open()
		release := func() {}
		hold := func() { // delays the reply of the call in progress; m.mu is held
			ch := make(chan struct{})
			m.hung[handleOf(1)] = ch
			release = func() { m.mu.Lock(); delete(m.hung, handleOf(1)); m.mu.Unlock(); close(ch) }
		}
		m.fail = func(proc string, _ nfs3.FH, off uint64, n int) error {
			if proc == "WRITE" && off == 2048 {
				m.verf++
				m.disk(handleOf(1)).now = nil
				hold()
				// called at the WRITE of the newer data
				m.fail = func(string, nfs3.FH, uint64, int) error {
					m.fail = nil
					hold()
					return nil
				}
			}
			return nil
		}
		mustWrite(t, h, bytes.Repeat([]byte{1}, 4096), 0)
		synctest.Wait() // the first half is lost, and the second half's reply is held
		done := make(chan error, 1)
		go func() { done <- h.Sync(bg) }()
		synctest.Wait()
		mustWrite(t, h, bytes.Repeat([]byte{2}, 4096), 0)
		release()
		synctest.Wait()
		if len(done) > 0 {
			t.Error("sync has returned, and neither the old data nor the new is stable")
		}
		release()
		if err := <-done; err != nil {
			t.Fatalf("sync: %v", err)
		}
		got := m.content(handleOf(1))
		if len(got) < 4096 {
			t.Fatalf("%d bytes are stable after sync, want 4096 at least", len(got))
		}
		if got[0] == 0 || got[4095] == 0 {
			t.Errorf("after sync bytes 0 and 4095 are %d and %d, want others than 0", got[0], got[4095])
		}
		_ = h.Close()
		f.Release()
		_ = e.Close(bg)
	})
}

// A halfModel accepts at most 2048 bytes in each WRITE.
type halfModel struct{ *model }

func (m *halfModel) Write(ctx context.Context, fh nfs3.FH, cred Cred, p []byte, off uint64, how nfs3.StableHow) (int, nfs3.StableHow, nfs3.Verf, error) {
	return m.model.Write(ctx, fh, cred, p[:min(len(p), 2048)], off, how)
}

// If a COMMIT is needed anyway, the last WRITE is unstable too.
func TestLastWriteBeforeCommitIsUnstable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1)
		_, _, h := rig(t, m, Config{WriteSize: 4096})
		mustWrite(t, h, pattern(4096), 0)
		synctest.Wait()
		mustWrite(t, h, pattern(10), 4096)
		if err := h.Sync(bg); err != nil {
			t.Errorf("sync: %v", err)
		}
		if m.how[nfs3.FileSync] != 0 || m.commits != 1 {
			t.Errorf("%d stable WRITEs, %d COMMITs, want 0, 1", m.how[nfs3.FileSync], m.commits)
		}
	})
}

// A READ that was answered before written data is sent finds the end of the file too early.
func TestEndBeforeWrittenData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1)
		_, _, h := rig(t, m, Config{ReadSize: 4096, WriteSize: 4096, ReadAhead: 64 << 10})
		content := pattern(16000)
		m.set(handleOf(1), content)
		content = put(content, []byte("far away"), 60000)
		mustWrite(t, h, content[60000:], 60000)
		mustRead(t, h, content, 0, 4096)
		mustRead(t, h, content, 4096, 4096)
		mustRead(t, h, content, 8192, 4096)
		synctest.Wait() // read-ahead has reached the server's end of file
		if err := h.Sync(bg); err != nil {
			t.Fatalf("sync: %v", err)
		}
		for off := 12288; off < len(content); off += 4096 {
			mustRead(t, h, content, off, 4096)
		}
	})
}

// If setting the size fails, written data beyond the size stays. A size change is made only after
// the WRITEs beyond its size.
func TestTruncateThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1)
		_, f, h := rig(t, m, Config{WriteSize: 4096})
		content := pattern(6000)
		release := m.hang(handleOf(1))
		mustWrite(t, h, content, 0)
		short, stop := context.WithTimeout(bg, time.Second)
		err := f.Truncate(short, 10, func(context.Context) error { t.Error("a WRITE is on its way"); return nil })
		stop()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("truncate: %v", err)
		}
		release()
		want := errors.New("refused")
		if err := f.Truncate(bg, 10, func(context.Context) error { return want }); err != want {
			t.Errorf("truncate: %v", err)
		}
		if err := h.Sync(bg); err != nil || !bytes.Equal(m.content(handleOf(1)), content) {
			t.Errorf("%v, %d bytes", err, len(m.content(handleOf(1))))
		}
	})
}
