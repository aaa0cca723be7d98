// nfsrdmad locks: held locks and waiting requests.

package program

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/nfsrdma/nfsrdma/nfsserver/nlm"
	"github.com/spf13/cobra"
)

// maxLocks limits the number of locks shown.
const maxLocks = 10000

// A locksReport is the answer to locks, by export, file and first byte.
type locksReport struct {
	On    bool         `json:"on"`            // the server serves locks
	Grace float64      `json:"grace_seconds"` // in which clients may only reclaim locks
	Locks []lockReport `json:"locks"`         // by export, file and first byte
	More  bool         `json:"more"`          // there are others
	// files whose locks are missing here, because their file system does not answer
	BusyFiles int `json:"busy_files"`
}

// A lockReport is one lock, or one request that waits for one.
type lockReport struct {
	Address string `json:"address"` // of the client
	Host    string `json:"host"`    // the name that it gives itself
	Svid    int32  `json:"svid"`    // of the process there
	Owner   string `json:"owner"`   // in hex
	Export  string `json:"export"`  // of the file
	Path    string `json:"path"`    // "": not known
	File    string `json:"file"`    // identifies the file in its export, in hex

	// held, waiting, or calling: the server is calling the client back to grant the lock
	State string   `json:"state"`
	Kind  string   `json:"kind"`           // read, write, or share
	Start uint64   `json:"start"`          // the first byte
	End   *uint64  `json:"end"`            // the last byte; null: the end of the file
	Deny  uint32   `json:"deny,omitempty"` // of a share: 1 reading, 2 writing
	Want  uint32   `json:"want,omitempty"` // of a share, likewise
	Age   *float64 `json:"age_seconds"`    // null of a share
}

func newLocks(k *Kind) *cobra.Command {
	return newView(k, &cobra.Command{
		Use:   "locks",
		Short: "Show the locks of the clients of the running server",
		Long: `Show the locks that clients hold or wait for by NLM, one per line, by file. HOST and
SVID are the names that the client gives itself and its process. OWNER is the start
of the name of the lock's owner. Locks of programs on this machine are in /proc/locks.

Waiting locks are requests in the queue of the server. Some nfsrdma mounts cannot be
called by the server, for example on a machine without rpcbind. They have no request
in the queue. Instead they ask again about every second, until the lock is free.`,
		Example: `  nfsrdmad locks
  nfsrdmad locks --json | jq '.locks[] | select(.state == "waiting")'`,
	}, showLocks)
}

// locks returns the report on all locks.
func (r *running) locks() *locksReport {
	report := &locksReport{Locks: []lockReport{}}
	svc := r.o.locks.svc
	if svc == nil {
		return report
	}
	snap := svc.Snapshot(maxLocks)
	report.On, report.Grace, report.More, report.BusyFiles = true, svc.Grace().Seconds(), snap.More, snap.Busy
	for i := range snap.Locks {
		report.Locks = append(report.Locks, newLockReport(&snap.Locks[i]))
	}
	slices.SortFunc(report.Locks, func(a, b lockReport) int {
		return cmp.Or(cmp.Compare(a.Export, b.Export), cmp.Compare(a.Path, b.Path), cmp.Compare(a.File, b.File), cmp.Compare(a.Start, b.Start),
			cmp.Compare(a.State, b.State), cmp.Compare(a.Address, b.Address), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Svid, b.Svid))
	})
	return report
}

func newLockReport(l *nlm.LockInfo) lockReport {
	row := lockReport{Address: l.Addr.String(), Host: l.Host, Svid: l.Svid, Owner: hex.EncodeToString([]byte(l.Owner)), Export: l.Export, Path: l.Path,
		File: hex.EncodeToString([]byte(l.Ref)), State: l.State.String(), Kind: "read", Start: l.Start}
	if l.Exclusive {
		row.Kind = "write"
	}
	if l.Share {
		row.Kind, row.Deny, row.Want = "share", l.Mode, l.Access
		return row
	}
	if l.End != nlm.EndOfFile {
		row.End = &l.End
	}
	held := time.Since(l.Since).Seconds()
	row.Age = &held
	return row
}

// showLocks prints a report.
func showLocks(w io.Writer, r *locksReport) error {
	if !r.On {
		fmt.Fprintln(w, "the server serves no locks (--locks off)")
		return nil
	}
	if r.Grace > 0 {
		fmt.Fprintf(w, "for %s clients may only reclaim locks that they had before the restart\n", formatAge(r.Grace))
	}
	t := newTable(w, "CLIENT\tHOST\tSVID\tOWNER\tSTATE\tKIND\tFIRST\tLAST\tAGE\tFILE")
	for i := range r.Locks {
		l := &r.Locks[i]
		last, since := "end", "-"
		if l.End != nil {
			last = fmt.Sprint(*l.End)
		}
		if l.Age != nil {
			since = formatAge(*l.Age)
		}
		file := cell(l.Path)
		if l.Path == "" {
			file = fmt.Sprintf("%s:%s", cell(l.Export), l.File)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%.8s\t%s\t%s\t%d\t%s\t%s\t%s\n", l.Address, cell(l.Host), l.Svid, cell(l.Owner), l.State, l.Kind, l.Start, last, since, file)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if r.More {
		fmt.Fprintf(w, "and others: the first %d are shown\n", len(r.Locks))
	}
	if r.BusyFiles > 0 {
		fmt.Fprintf(w, "and those of %s whose file system does not answer\n", text.Plural(int64(r.BusyFiles), "file"))
	}
	return nil
}
