// Incomplete records: they release their memory, and their deadline ends with them.

package transport

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// piped returns the client's end of a connection served by s.
func piped(t *testing.T, s *Server) net.Conn {
	t.Helper()
	ours, theirs := net.Pipe()
	c := newTCPConn(s, theirs)
	if !s.add(c, theirs.RemoteAddr()) {
		t.Fatal("refused")
	}
	go c.begin()
	return ours
}

// record returns a NULL call with n more bytes, including its mark.
func record(n int) []byte {
	e := xdr.NewEncoder(nil)
	e.Uint32(0)
	h := oncrpc.CallHeader{XID: 1, Prog: testProg, Vers: testVers, Proc: tNull}
	h.EncodeXDR(e)
	e.Raw(make([]byte, n))
	e.SetUint32(0, uint32(e.Len()-markLen)|lastFragment)
	return e.Bytes()
}

// TestCutRecordsReleaseBudget: peers that announce large records and leave in the middle do not
// use up the budget.
func TestCutRecordsReleaseBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(ServerConfig{}, newTestProgram().program())
		defer s.Shutdown(t.Context())
		for range 3 {
			c := piped(t, s)
			c.Write(record(1 << 20)[:200<<10])
			synctest.Wait()
			if s.budgetUsed() == 0 {
				t.Error("a large record takes nothing of the budget")
			}
			c.Close()
			synctest.Wait()
			if n := s.budgetUsed(); n != 0 {
				t.Fatalf("%d bytes are still taken after the end of the connection", n)
			}
		}
	})
}

// TestLargeRecordWaitsForTheBudget: a large record is served when memory is released. Otherwise its
// connection is cut off after a timeout, and then holds no memory.
func TestLargeRecordWaitsForTheBudget(t *testing.T) {
	for _, inTime := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := NewServer(ServerConfig{}, newTestProgram().program())
			defer s.Shutdown(t.Context())
			other := s.cfg.Budget.Open(nil)
			if !other.Take(s.cfg.Budget.Total()) {
				t.Fatal("not all is free")
			}
			c := piped(t, s)
			go c.Write(record(1 << 20))
			time.Sleep(s.cfg.HalfTimeout / 2)
			if inTime {
				other.Give(s.cfg.Budget.Total())
			}
			if n, err := c.Read(make([]byte, 100)); (err == nil) != inTime {
				t.Errorf("in time %v: %d bytes, %v", inTime, n, err)
			}
			if !inTime {
				other.Give(s.cfg.Budget.Total())
			}
			c.Close()
			synctest.Wait()
			if n := s.budgetUsed(); n != 0 {
				t.Errorf("in time %v: %d bytes are still taken", inTime, n)
			}
		})
	}
}

// TestPauseAfterASplitRecord: a record in two parts leaves no deadline behind; an incomplete one
// does.
func TestPauseAfterASplitRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(ServerConfig{HalfTimeout: time.Minute}, newTestProgram().program())
		defer s.Shutdown(t.Context())
		c := piped(t, s)
		defer c.Close()
		call, reply := record(0), make([]byte, markLen+24)
		time.Sleep(time.Hour) // before the first record, too
		for range 2 {
			c.Write(call[:20])
			synctest.Wait()
			time.Sleep(30 * time.Second)
			c.Write(call[20:])
			if _, err := io.ReadFull(c, reply); err != nil {
				t.Fatalf("the reply to a record in two parts: %v", err)
			}
			time.Sleep(time.Hour)
		}
		c.Write(call[:20])
		start := time.Now()
		if _, err := c.Read(reply); err != io.EOF || time.Since(start) > 2*time.Minute {
			t.Errorf("half a record: %v after %v", err, time.Since(start))
		}
	})
}
