// The report of a mount: its transport, its options, and the options without effect.

package mounter

import (
	"context"
	"fmt"
	"strings"

	"github.com/nfsrdma/nfsrdma/cmd/internal/rights"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsclient/fusefs"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/transport"
)

// A Report is the reply of a mount's process.
type Report struct {
	Options string // options as given, separated by commas
	fusefs.Stats
}

// Reached returns the transport to the server as mount options; "" if it is unknown.
func (r *Report) Reached() string {
	if len(r.Connections) == 0 {
		return ""
	}
	s := reached(&r.Connections[0])
	if r.Sec != "" && r.Sec != "sys" {
		s += ",sec=" + r.Sec
	}
	if x := r.Connections[0].Xprtsec; x != "" && x != "none" {
		s += ",xprtsec=" + x
	}
	return s
}

func reached(l *transport.LinkFigures) string {
	switch l.Transport {
	case "", "tcp":
		if l.Transport == "" {
			return "" // the process is of an older version
		}
		return "proto=tcp"
	}
	crc := "off"
	if l.CRC {
		crc = "on"
	}
	return fmt.Sprintf("proto=rdma,rdma=%s,crc=%s", l.Transport, crc)
}

// ListOptions returns the transport, and the options unrelated to the transport.
func (r *Report) ListOptions() string {
	list := []string{}
	reached := r.Reached()
	if reached != "" {
		list = append(list, reached)
	}
	for option := range strings.SplitSeq(r.Options, ",") {
		switch name, _, _ := strings.Cut(option, "="); name {
		case "", "proto", "rdma", "tcp", "provider", "crc", "ro", "rw":
		case "sec", "xprtsec":
			if !strings.Contains(reached, name+"=") {
				list = append(list, option)
			}
		default:
			list = append(list, option)
		}
	}
	return strings.Join(list, ",")
}

// warnMapped warns that the server maps the mount's user to another user, or that the user cannot
// change anything in the export.
func (r *Request) warnMapped(ctx context.Context, s *session.Session, fsys *nfsclient.FS, tell func(string)) {
	if fsys.Client().Kerberos() {
		return // the server's users have other numbers
	}
	ctx, cancel := context.WithTimeout(ctx, s.Flags.ConnectTimeout)
	defer cancel()
	cred := transport.SysCred()
	if own := r.Options.Client(r.Source.Targets[0]).Cred; own != nil {
		cred = *own
	}
	view, err := rights.Look(ctx, fsys.Client(), fsys.Root(), cred)
	if err != nil {
		return // the first use of the mount reports it
	}
	if !r.Options.ReadOnly {
		view.AskReadOnly(ctx, fsys.Client(), fsys.Root())
	}
	if line := view.AtMount(r.Options.ReadOnly, r.Verbose); line != "" {
		tell(r.Spec + ": " + line)
	}
}

// warnUngranted warns about connection options that the server did not grant.
func (r *Request) warnUngranted(fsys *nfsclient.FS, tell func(string)) {
	o, say := r.Options, func(format string, args ...any) { tell(r.Spec + ": " + fmt.Sprintf(format, args...)) }
	links := fsys.Client().Links()
	if len(links) == 0 {
		return
	}
	tcp := links[0].Transport == "tcp"
	switch {
	case tcp && o.Provider == nfsclient.RoCE:
		say("option rdma=%v has no effect over TCP", o.Provider)
	case tcp && o.CRC != rnic.CRCOn:
		say("option crc=%v has no effect over TCP", o.CRC)
	case tcp:
	case o.CRC == rnic.CRCOff && links[0].CRC && links[0].Transport == "roce":
		say("option crc=off has no effect: packets of RoCE have CRCs in any case")
	case o.CRC == rnic.CRCOff && links[0].CRC:
		say("option crc=off has no effect: the server requires CRCs (nfsrdmad: --crc auto)")
	case o.CRC == rnic.CRCStrict && links[0].Transport == "roce":
		say("option crc=strict has no effect: RoCE checks each packet before any of it is placed")
	}
	if o.ReadSize > fsys.MaxRead() {
		say("option rsize=%d: the server takes %d at most", o.ReadSize, fsys.MaxRead())
	}
	if o.WriteSize > fsys.MaxWrite() {
		say("option wsize=%d: the server takes %d at most", o.WriteSize, fsys.MaxWrite())
	}
}
