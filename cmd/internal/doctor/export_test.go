// The checks of the export, against servers with wrong or incomplete answers.

package doctor

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// answer makes a procedure in programs always return res.
func answer(programs []*transport.Program, prog, proc uint32, res xdr.Marshaler) []*transport.Program {
	return withProc(programs, prog, proc, func(_ func(*transport.Call) error, c *transport.Call) error {
		res.EncodeXDR(c.Res)
		return nil
	})
}

// unable makes a procedure in programs fail with an RPC error.
func unable(programs []*transport.Program, prog, proc uint32, err error) []*transport.Program {
	return withProc(programs, prog, proc, func(func(*transport.Call) error, *transport.Call) error { return err })
}

// overTCP serves programs and returns options that need no RDMA.
func overTCP(t *testing.T, programs []*transport.Program) Options {
	t.Helper()
	_, tcp := serve(t, programs...)
	return Options{RDMAPort: machine.Port(t), TCPPort: tcp, TCP: true}
}

// Each answer about the export decides its check's status and advice; a failure skips the checks
// that need it.
func TestExportsThatAreUnwell(t *testing.T) {
	programs, _ := tree(t, me(), false)
	nfs := func(proc uint32, res xdr.Marshaler) []*transport.Program {
		return answer(programs, nfs3.Program, proc, res)
	}
	const all = nfs3.AccessAll
	noWrite := wanted{Warn, "the directory's mode and owner decide"}
	if me() == 0 {
		noWrite.part = "root acts as another user there (root_squash"
	}
	skipped := wanted{Skip, fsinfoCheck}
	for name, c := range map[string]struct {
		programs []*transport.Program
		healthy  bool
		want     map[string]wanted
	}{
		"stale handle": {nfs(nfs3.ProcFsinfo, &nfs3.FsinfoRes{Status: nfs3.ErrStale}), false,
			map[string]wanted{mntCheck: {OK, ""}, fsinfoCheck: {Fail, "MOUNT and NFS are not of one server"}, spaceCheck: skipped, whoCheck: skipped, writeCheck: skipped}},
		"not allowed": {nfs(nfs3.ProcFsinfo, &nfs3.FsinfoRes{Status: nfs3.ErrAcces}), false, map[string]wanted{fsinfoCheck: {Fail, "lists other hosts"}}},
		"server fault": {unable(programs, nfs3.Program, nfs3.ProcFsinfo, transport.ErrSystem), false,
			map[string]wanted{fsinfoCheck: {Fail, "see the server's log"}}},
		"no READ at all": {nfs(nfs3.ProcFsinfo, &nfs3.FsinfoRes{Wtmax: 4096}), false, map[string]wanted{fsinfoCheck: {Fail, "READs of at most 0"}}},
		"small READ": {nfs(nfs3.ProcFsinfo, &nfs3.FsinfoRes{Rtmax: 8192, Wtmax: 1 << 20, Maxfilesize: 1 << 40}), true,
			map[string]wanted{fsinfoCheck: {Warn, "READ 8 KiB, WRITE 1 MiB, files up to 1 TiB → raise the server's largest transfer"}, whoCheck: {OK, ""}}},
		"small WRITE":     {nfs(nfs3.ProcFsinfo, &nfs3.FsinfoRes{Rtmax: 1 << 20, Wtmax: 4096}), true, map[string]wanted{fsinfoCheck: {Warn, "WRITE 4 KiB"}}},
		"enough":          {nfs(nfs3.ProcFsinfo, &nfs3.FsinfoRes{Rtmax: goodTransfer, Wtmax: goodTransfer}), true, map[string]wanted{fsinfoCheck: {OK, "over TCP: READ 64 KiB"}}},
		"full":            {nfs(nfs3.ProcFsstat, &nfs3.FsstatRes{Tbytes: 1 << 30, Tfiles: 9, Afiles: 3}), true, map[string]wanted{spaceCheck: {Warn, "0 bytes of 1 GiB free for us, 3 of 9 files → make room"}}},
		"no more files":   {nfs(nfs3.ProcFsstat, &nfs3.FsstatRes{Tbytes: 1 << 30, Abytes: 1 << 20, Tfiles: 9}), true, map[string]wanted{spaceCheck: {Warn, "remove files"}}},
		"an empty tree":   {nfs(nfs3.ProcFsstat, &nfs3.FsstatRes{Tfiles: 9}), true, map[string]wanted{spaceCheck: {OK, "0 bytes of 0 bytes"}}},
		"files uncounted": {nfs(nfs3.ProcFsstat, &nfs3.FsstatRes{Tbytes: 1 << 30, Abytes: 1 << 20}), true, map[string]wanted{spaceCheck: {OK, "1 MiB of 1 GiB"}}},
		"space stale":     {nfs(nfs3.ProcFsstat, &nfs3.FsstatRes{Status: nfs3.ErrStale}), true, map[string]wanted{spaceCheck: {Warn, "exportfs -f"}, whoCheck: {OK, ""}}},
		"no attributes":   {nfs(nfs3.ProcGetattr, &nfs3.GetattrRes{Status: nfs3.ErrIO}), false, map[string]wanted{whoCheck: {Fail, "GETATTR"}}},
		"ACCESS fails":    {nfs(nfs3.ProcAccess, &nfs3.AccessRes{Status: nfs3.ErrBadHandle}), false, map[string]wanted{whoCheck: {Fail, "ACCESS"}}},
		"not to enter":    {nfs(nfs3.ProcAccess, &nfs3.AccessRes{Access: nfs3.AccessRead}), false, map[string]wanted{whoCheck: {Fail, "list yes, enter no, write no"}}},
		"not to write":    {nfs(nfs3.ProcAccess, &nfs3.AccessRes{Access: all &^ nfs3.AccessExtend}), true, map[string]wanted{whoCheck: noWrite}},
		"all":             {nfs(nfs3.ProcAccess, &nfs3.AccessRes{Access: all}), true, map[string]wanted{whoCheck: {OK, "list yes, enter yes, write yes"}}},
		"another's handle": {answer(programs, mount3.Program, mount3.ProcMnt, &mount3.MntRes{Handle: []byte("of another server"), Flavors: []uint32{1}}), false,
			map[string]wanted{mntCheck: {OK, "a handle of 17 bytes"}, fsinfoCheck: {Fail, "MOUNT and NFS are not of one server"}}},
		"a handle too long": {answer(programs, mount3.Program, mount3.ProcMnt, &mount3.MntRes{Handle: make([]byte, 65)}), false, map[string]wanted{mntCheck: {Fail, ""}}},
		"flavors not told":  {answer(programs, mount3.Program, mount3.ProcMnt, &mount3.MntRes{Handle: []byte("h")}), false, map[string]wanted{mntCheck: {OK, "flavors not told"}}},
		"no READDIRPLUS":    {unable(programs, nfs3.Program, nfs3.ProcReaddirplus, transport.ErrProcUnavail), true, map[string]wanted{whoCheck: {OK, ""}}},
	} {
		t.Run(name, func(t *testing.T) { examine(t, overTCP(t, c.programs), c.healthy, c.want) })
	}
}

// A read-only export is named as the only cause, although ACCESS does not reveal the cause. Free
// space is not reported.
func TestReadOnlyExport(t *testing.T) {
	programs, _ := tree(t, me(), true)
	full := answer(programs, nfs3.Program, nfs3.ProcFsstat, &nfs3.FsstatRes{Tbytes: 1 << 30, Tfiles: 9})
	r := examine(t, overTCP(t, full), true, map[string]wanted{
		whoCheck:   {Warn, "write no (root directory: mode 0755"},
		spaceCheck: {OK, "0 bytes of 1 GiB"},
	})
	const want = "the export is read-only for this host; to change it: rw in exports(5); nfsrdmad: no --read-only"
	for _, f := range r.Findings {
		if f.Check == whoCheck && f.Advice != want {
			t.Errorf("advice: %q, want %q", f.Advice, want)
		}
	}
}

// The list of exports: the permitted clients, and a limited number of names.
func TestListsOfExports(t *testing.T) {
	programs, _ := tree(t, me(), false)
	list := func(exports ...mount3.Export) Options {
		return overTCP(t, answer(programs, mount3.Program, mount3.ProcExport, &mount3.ExportRes{Exports: exports}))
	}
	examine(t, list(mount3.Export{Dir: "/m", Groups: []string{"10.0.0.0/8", "@hosts"}}), true, map[string]wanted{exportsCheck: {OK, "/m (10.0.0.0/8,@hosts)"}, mntCheck: {OK, "/m"}})
	many := make([]mount3.Export, shownExports+3)
	for i := range many {
		many[i].Dir = "/m"
	}
	examine(t, list(many...), true, map[string]wanted{exportsCheck: {OK, ", 3 more"}})
	examine(t, list(), true, map[string]wanted{exportsCheck: {Warn, "the list is empty → export a directory"}, mntCheck: {Skip, "none is listed"}})
}

// The advice about a refusal depends on the exports, their clients, and the status.
func TestRefusalAdvice(t *testing.T) {
	list := func(dirs ...string) (l []mount3.Export) {
		for _, d := range dirs {
			l = append(l, mount3.Export{Dir: d})
		}
		return l
	}
	for want, c := range map[string]struct {
		export  string
		exports []mount3.Export
		status  mount3.Status
	}{
		"add this host to the clients of the export on the server (exports(5))":         {"/a/b", list("/a"), mount3.ErrAcces},
		"it is not exported: the list begins with /a; nfsrdma showmount h shows it all": {"/ab", list("/a"), mount3.ErrAcces},
		"no such directory is exported: check the path on the server":                   {"/a/none", list("/a"), mount3.ErrNoEnt},
		"see the server's log": {"/a", list("/"), mount3.ErrIO},
	} {
		cu := newCheckup(Options{Host: "h"})
		cu.export, cu.exports = c.export, c.exports
		if got := cu.refusalAdvice(c.status); got != want {
			t.Errorf("%s of %v, %v:\n got %s\nwant %s", c.export, c.exports, c.status, got, want)
		}
	}
}

func TestSizesAndFlavors(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 bytes", 1023: "1023 bytes", 1024: "1 KiB", 1536: "1.5 KiB", 64 << 10: "64 KiB", 1 << 20: "1 MiB", 1<<64 - 1: "16 EiB"} {
		if got := size(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	for f, want := range map[uint32]string{0: "none", 1: "sys", 7: "tls", 390003: "krb5", 390004: "krb5i", 390005: "krb5p", 99: "99"} {
		if got := nfsclient.SecName(oncrpc.Flavor(f)); got != want {
			t.Errorf("%d: %s, want %s", f, got, want)
		}
	}
}
