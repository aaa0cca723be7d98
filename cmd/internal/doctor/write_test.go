// The write check: its conclusions about the server, and its cleanup.

package doctor

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

var nfsPage nfsclient.DirPage // zero value: the first page of a listing

func me() uint32 { return uint32(os.Geteuid()) }

// Servers that let us write under another identity, or with another clock.
func TestSquashAndClock(t *testing.T) {
	programs, _ := tree(t, me()+4242, false)
	rdma, tcp := serve(t, programs...)
	part := "belong to"
	if me() == 0 { // root gets advice for Linux servers and for ours
		part = "no_root_squash in exports(5), or nfsrdmad --no-root-squash"
	}
	examine(t, Options{RDMAPort: rdma, TCPPort: tcp, Write: true}, true, map[string]wanted{writeCheck: {Warn, part}})
	programs, _ = tree(t, me(), false)
	rdma, tcp = serve(t, programs...)
	for skew, status := range map[time.Duration]Status{time.Hour: Warn, -time.Hour: Warn, 3 * time.Second: OK} {
		now := func() time.Time { return time.Now().Add(skew) }
		begin := time.Now()
		r := examine(t, Options{RDMAPort: rdma, TCPPort: tcp, Write: true, Now: now}, true, map[string]wanted{writeCheck: {status, "clock"}})
		// The check reports the part of the lag that is certain. It is shorter than skew by at most
		// the time of CREATE.
		told, took := toldSkew(t, r), time.Since(begin)
		least := max(skew.Abs()-took, 0).Truncate(time.Second)
		if told.Abs() < least || told.Abs() > skew.Abs() || told != 0 && (told > 0) != (skew > 0) {
			t.Errorf("the server's clock is %v behind ours, and said to be %v, after %v", skew, told, took)
		}
	}
	if names := left(t, tcp); len(names) > 0 {
		t.Errorf("left behind: %q", names)
	}
}

// toldSkew returns the reported lag of the server's clock.
func toldSkew(t *testing.T, r Report) time.Duration {
	t.Helper()
	i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Check == writeCheck })
	if strings.Contains(r.Findings[i].Text, "the clocks agree") {
		return 0
	}
	_, text, _ := strings.Cut(r.Findings[i].Text, "; the server's clock is ")
	by, way, _ := strings.Cut(text, " ")
	skew, err := time.ParseDuration(by)
	if err != nil {
		t.Fatal(err, text)
	}
	if way == "ahead" {
		return -skew
	}
	return skew
}

// Servers that refuse writes, or perform them wrongly. Files are removed if possible, and otherwise
// named.
func TestWritesThatFail(t *testing.T) {
	programs, _ := tree(t, me(), true)
	rdma, tcp := serve(t, programs...)
	examine(t, Options{RDMAPort: rdma, TCPPort: tcp, Write: true}, false, map[string]wanted{writeCheck: {Fail, "the export is read-only"}})

	programs, _ = tree(t, me(), false)
	_, tcp = serve(t, programs...)
	wrong := withProc(programs, nfs3.Program, nfs3.ProcGetattr, func(old func(*transport.Call) error, c *transport.Call) error { return old(c) })
	wrong = withProc(wrong, nfs3.Program, nfs3.ProcCommit, func(func(*transport.Call) error, *transport.Call) error { return transport.ErrSystem })
	rdma, _ = serve(t, wrong...)
	examine(t, Options{RDMAPort: rdma, TCPPort: tcp, Write: true}, false, map[string]wanted{writeCheck: {Fail, "COMMIT"}})

	reads := 0
	stale := withProc(programs, nfs3.Program, nfs3.ProcWrite, func(old func(*transport.Call) error, c *transport.Call) error {
		if reads++; reads == 2 { // the second WRITE replies success and writes nothing
			var a nfs3.WriteArgs
			a.DecodeXDR(c.Args)
			(&nfs3.WriteRes{Count: a.Count}).EncodeXDR(c.Res)
			return c.ArgsErr()
		}
		return old(c)
	})
	rdma, _ = serve(t, stale...)
	examine(t, Options{RDMAPort: rdma, TCPPort: tcp, Write: true}, false, map[string]wanted{writeCheck: {Fail, "not what was written"}})
	if names := left(t, tcp); len(names) > 0 {
		t.Errorf("left behind: %q", names)
	}

	keeps := withProc(programs, nfs3.Program, nfs3.ProcRemove, func(_ func(*transport.Call) error, c *transport.Call) error {
		(&nfs3.RemoveRes{Status: nfs3.ErrIO}).EncodeXDR(c.Res)
		return nil
	})
	rdma, _ = serve(t, keeps...)
	examine(t, Options{RDMAPort: rdma, TCPPort: tcp, Write: true}, false, map[string]wanted{writeCheck: {Fail, "/m/.nfsrdma-doctor-"}})
	if names := left(t, tcp); len(names) != 1 {
		t.Errorf("left behind: %q, want the one that was named", names)
	}
}

// A failure at any step names the step, and leaves no file.
func TestNothingIsLeftBehind(t *testing.T) {
	programs, _ := tree(t, me(), false)
	_, good := serve(t, programs...)
	status := func(proc uint32, res xdr.Marshaler) []*transport.Program {
		return answer(programs, nfs3.Program, proc, res)
	}
	lost := withProc(programs, nfs3.Program, nfs3.ProcCreate, func(old func(*transport.Call) error, c *transport.Call) error {
		if err := old(c); err != nil {
			return err
		}
		return transport.ErrSystem // after old, which makes the file: the client gets an error
	})
	gone := 0
	vanished := withProc(programs, nfs3.Program, nfs3.ProcGetattr, func(old func(*transport.Call) error, c *transport.Call) error {
		if gone++; gone > 1 { // the first GETATTR is for the root
			(&nfs3.GetattrRes{Status: nfs3.ErrStale}).EncodeXDR(c.Res)
			return nil
		}
		return old(c)
	})
	for name, c := range map[string]struct {
		programs []*transport.Program
		part     string
	}{
		"CREATE, answer lost": {lost, "cannot make .nfsrdma-doctor-"},
		"WRITE, no space":     {status(nfs3.ProcWrite, &nfs3.WriteRes{Status: nfs3.ErrNoSpc}), "→ make room on the server"},
		"WRITE, fault":        {unable(programs, nfs3.Program, nfs3.ProcWrite, transport.ErrSystem), "WRITE"},
		"COMMIT":              {status(nfs3.ProcCommit, &nfs3.CommitRes{Status: nfs3.ErrIO}), "COMMIT: NFS3ERR_IO) → do not trust"},
		"READ":                {status(nfs3.ProcRead, &nfs3.ReadRes{Status: nfs3.ErrStale}), "READ"},
		"READ, too short":     {status(nfs3.ProcRead, &nfs3.ReadRes{EOF: true}), "the file ends after 0 of 262144 bytes"},
		"READ, of nothing":    {status(nfs3.ProcRead, &nfs3.ReadRes{}), "READ at 0 of 262144 bytes gives none"},
		"GETATTR":             {vanished, "GETATTR of the new file"},
	} {
		t.Run(name, func(t *testing.T) {
			o := overTCP(t, c.programs)
			o.Write = true
			r := examine(t, o, false, map[string]wanted{writeCheck: {Fail, c.part}})
			for _, f := range r.Findings {
				if f.Check == writeCheck && strings.Contains(f.Text, "may be left") {
					t.Errorf("what is gone is said to be left: %+v", f)
				}
			}
			if names := left(t, good); len(names) > 0 {
				t.Errorf("left behind: %q", names)
			}
		})
	}
}

// An interruption during the write leaves no file either.
func TestInterruptedWriteIsRemoved(t *testing.T) {
	programs, _ := tree(t, me(), false)
	_, good := serve(t, programs...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := overTCP(t, withProc(programs, nfs3.Program, nfs3.ProcWrite, func(old func(*transport.Call) error, c *transport.Call) error {
		cancel()
		return old(c)
	}))
	o.Host, o.BindPort, o.Write = "127.0.0.1", machine.Port(t), true
	if r := Examine(ctx, o, nil); r.OK {
		t.Errorf("all is well: %+v", r)
	}
	if names := left(t, good); len(names) > 0 {
		t.Errorf("left behind: %q", names)
	}
}

// If a server refuses to make the file, the advice depends on the status, and no REMOVE is sent.
func TestRefusedFiles(t *testing.T) {
	programs, _ := tree(t, me(), false)
	removes := 0
	programs = withProc(programs, nfs3.Program, nfs3.ProcRemove, func(old func(*transport.Call) error, c *transport.Call) error {
		removes++
		return old(c)
	})
	for s, part := range map[nfs3.Status]string{
		nfs3.ErrROFS: "rw in exports(5)", nfs3.ErrAcces: "is not allowed to write here", nfs3.ErrPerm: "is not allowed to write here",
		nfs3.ErrNoSpc: "make room", nfs3.ErrDQuot: "raise the quota", nfs3.ErrStale: "mount again", nfs3.ErrIO: "see the server's log",
	} {
		o := overTCP(t, answer(programs, nfs3.Program, nfs3.ProcCreate, &nfs3.CreateRes{Status: s}))
		o.Write = true
		examine(t, o, false, map[string]wanted{writeCheck: {Fail, part}})
	}
	if removes != 0 {
		t.Errorf("%d files removed that were not made", removes)
	}
}

// The finding depends on the new file's owner and time.
func TestWhatTheFileTells(t *testing.T) {
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
	begin := time.Unix(1000, 0)
	made := begin.Add(2 * time.Second)
	for name, c := range map[string]struct {
		gid   uint32
		mtime time.Time
		want  wanted
	}{
		"between":              {gid, begin.Add(time.Second), wanted{OK, "the clocks agree"}},
		"nearly":               {gid, begin.Add(-999 * time.Millisecond), wanted{OK, "the clocks agree"}},
		"a little behind":      {gid, begin.Add(-skewLimit), wanted{OK, "5s behind"}},
		"behind":               {gid, begin.Add(-skewLimit - time.Second), wanted{Warn, "6s behind"}},
		"ahead":                {gid, made.Add(time.Minute), wanted{Warn, "1m0s ahead"}},
		"group of the parent":  {77, begin, wanted{OK, "compared and removed"}},
		"group of nobody here": {78, begin, wanted{Warn, "the group is mapped"}},
	} {
		cu := newCheckup(Options{})
		cu.rootAttr.GID = 77
		f := cu.writeFinding(nfs3.Fattr{UID: uid, GID: c.gid}, c.mtime, begin, made)
		if f.Status != c.want.status || !strings.Contains(f.Text+" → "+f.Advice, c.want.part) {
			t.Errorf("%s: %+v, want %v with %q", name, f, c.want.status, c.want.part)
		}
	}
}
