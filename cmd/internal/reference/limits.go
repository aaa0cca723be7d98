// The page of limits: constants with their values, and the flags for others.

package reference

import (
	"fmt"
	"go/constant"
	"go/importer"
	"go/types"
	"strings"
	"time"
)

// A limit is a constant with a bound.
type limit struct {
	about, dir, name string
	unit             string // "bytes", "ns", or "" for a count
}

// limitFlags lists the flags of nfsrdmad serve that set limits.
var limitFlags = []string{"max-conns", "max-conns-per-host", "max-handshakes", "credits", "budget"}

var limits = []struct {
	title string
	rows  []limit
}{
	{"NFS and MOUNT", []limit{
		{"data of one READ or WRITE", "nfsserver", "MaxIO", "bytes"},
		{"path of a directory in MOUNT", "xdr/mount3", "MaxPath", "bytes"},
		{"symbolic links on a path in MOUNT", "nfsserver", "maxLinks", ""},
		{"rows of the mount list; the oldest are dropped", "nfsserver", "maxMounts", ""},
		{"file name that is decoded", "xdr/nfs3", "MaxName", "bytes"},
		{"target of a symbolic link that is decoded", "xdr/nfs3", "MaxPath", "bytes"},
		{"entries of a POSIX ACL", "xdr/nfsacl3", "MaxEntries", ""},
		{"supplementary groups of a caller without `--manage-gids`", "xdr/oncrpc", "MaxGIDs", ""},
		{"data of `nfsrdmad serve --memory`", "nfsserver/memfs", "defaultLimit", "bytes"},
	}},
	{"Locks", []limit{
		{"time after a restart in which clients can only reclaim locks", "nfsserver/nlm", "defaultGrace", "ns"},
		{"time without an answer after which a client's locks can end, if others wait for them", "nfsserver/nlm", "defaultGone", "ns"},
		{"time after a restart in which clients with locks get the notice", "nfsserver/nlm", "notifyFor", "ns"},
		{"name of a client", "nfsserver/nlm", "maxHostName", "bytes"},
		{"locks in `nfsrdmad locks`", "cmd/nfsrdmad/program", "maxLocks", ""},
	}},
	{"Connections and calls", []limit{
		{"data of the Read chunks, or of the Reply chunk, of a call", "rpcrdma", "defaultMaxChunk", "bytes"},
		{"credits of a connection, whatever is configured", "rpcrdma", "MostCredits", ""},
		{"message that is sent inline", "rpcrdma", "DefaultInlineSize", "bytes"},
		{"segments of a Read list", "chunks", "maxReadSegments", ""},
		{"segments of a Write list or a Reply chunk", "chunks", "MaxWriteSegments", ""},
		{"calls that run at once, with a budget of 256 MiB or more", "transport", "mostWorkers", ""},
		{"calls of a connection to an export that run at once", "transport", "defaultWorkers", ""},
		{"TCP record", "transport", "defaultRecord", "bytes"},
		{"time for the rest of a TCP record, and for a TCP client to take some bytes", "transport", "defaultHalf", "ns"},
		{"fragments of a TCP record", "transport", "maxFragments", ""},
		{"replies that are kept for repeated calls", "transport", "drcBytes", "bytes"},
		{"reply that is kept", "transport", "drcReplyMax", "bytes"},
		{"time that a reply is kept", "transport", "drcAge", "ns"},
		{"users of a connection in `nfsrdmad clients`", "nfsserver", "maxUsers", ""},
		{"time after SIGTERM in which running calls can end", "cmd/nfsrdmad/program", "shutdownGrace", "ns"},
	}},
	{"RDMA", []limit{
		{"time for the MPA Request of a client over iWARP", "rnic/iwarp", "acceptTimeout", "ns"},
		{"RDMA Reads at once, each way, over iWARP", "rnic/iwarp", "defaultReads", ""},
		{"RDMA Reads at once that peers can send over RoCE", "rnic/roce", "defaultIRD", ""},
		{"payload of a RoCE packet", "rnic/roce/core", "MaxMTU", "bytes"},
		{"message over RoCE", "rnic/roce/core", "MaxMessage", "bytes"},
		{"RDMA payload of an iWARP segment", "rnic/iwarp/mpa", "MaxULPDU", "bytes"},
	}},
	{"Metrics, audit log, control socket and names", []limit{
		{"records of `--audit` that wait for a slow or full disk", "cmd/internal/audit", "queueSize", "bytes"},
		{"connections for metrics at once", "cmd/nfsrdmad/program", "maxScrapes", ""},
		{"connections to the control socket at once", "cmd/internal/control", "maxConns", ""},
		{"request on the control socket", "cmd/internal/control", "maxRequest", "bytes"},
		{"host names that are remembered for the exports file", "nfsserver/exports", "mostNames", ""},
		{"time that a host name is remembered", "nfsserver/exports", "nameAge", "ns"},
		{"time that a host name without an answer is remembered", "nfsserver/exports", "failedAge", "ns"},
		{"registrations of `--rpcbind serve`", "transport/portmap", "maxRows", ""},
	}},
}

func writeLimits(w *writer, m *module, p Programs) error {
	serve, err := p.find("nfsrdmad serve")
	if err != nil {
		return err
	}
	w.line("The resources that attackers can use up, and the limits that depend on each other: [security](../security.md#limits).")
	w.line("\n## Limits with a flag\n\nFlags of [nfsrdmad serve](commands.md#nfsrdmad-serve).")
	w.table("Flag", "Default", "Meaning")
	for _, name := range limitFlags {
		f := serve.Flags().Lookup(name)
		if f == nil {
			return fmt.Errorf("nfsrdmad serve has no flag --%s", name)
		}
		w.row(code("--"+name), defaultOf(f), prose(f.Usage))
	}
	c := newConstants(m)
	for _, group := range limits {
		w.line("\n## %s", group.title)
		w.table("Limit", "Value", "Constant")
		for _, l := range group.rows {
			v, err := c.value(l.dir, l.name)
			if err != nil {
				return err
			}
			w.row(l.about, quantity(v, l.unit), code(l.dir+"."+l.name))
		}
	}
	return nil
}

// quantity formats a number with its unit: bytes in powers of two, times in minutes or seconds.
func quantity(n int64, unit string) string {
	switch unit {
	case "ns":
		switch d := time.Duration(n); {
		case d%time.Minute == 0:
			return fmt.Sprint(int64(d/time.Minute), " min")
		case d%time.Second == 0 && d < time.Minute:
			return fmt.Sprint(int64(d/time.Second), " s")
		default:
			return d.String()
		}
	case "bytes":
		for _, u := range []struct {
			shift uint
			name  string
		}{{30, "GiB"}, {20, "MiB"}, {10, "KiB"}} {
			if n >= 1<<u.shift && n&(1<<u.shift-1) == 0 {
				return fmt.Sprint(n>>u.shift, " ", u.name)
			}
		}
		return fmt.Sprint(n, " bytes")
	}
	return fmt.Sprint(n)
}

// constants evaluates constants. It type-checks declarations without function bodies; the only
// imports are the module's and two standard packages.
type constants struct {
	m       *module
	std     types.Importer
	checked map[string]*types.Package
}

func newConstants(m *module) *constants {
	return &constants{m: m, std: importer.ForCompiler(m.fset, "source", nil), checked: map[string]*types.Package{}}
}

// Import implements types.Importer.
func (c *constants) Import(path string) (*types.Package, error) {
	if dir, ours := strings.CutPrefix(path, modulePath); ours {
		return c.check(dir)
	}
	if path == "time" || path == "math" {
		return c.std.Import(path)
	}
	return nil, fmt.Errorf("%s is not read", path)
}

func (c *constants) check(dir string) (*types.Package, error) {
	if p := c.checked[dir]; p != nil {
		return p, nil
	}
	f, err := c.m.folder(dir)
	if err != nil {
		return nil, err
	}
	// errors come from imports that are not read, and are ignored
	cfg := types.Config{Importer: c, IgnoreFuncBodies: true, FakeImportC: true, Error: func(error) {}}
	p, _ := cfg.Check(modulePath+dir, c.m.fset, f.files, nil)
	c.checked[dir] = p
	return p, nil
}

// value returns a constant's number.
func (c *constants) value(dir, name string) (int64, error) {
	p, err := c.check(dir)
	if err != nil {
		return 0, err
	}
	if o, ok := p.Scope().Lookup(name).(*types.Const); ok {
		if n, exact := constant.Int64Val(constant.ToInt(o.Val())); exact {
			return n, nil
		}
	}
	return 0, fmt.Errorf("%s has no constant %s with a number", dir, name)
}
