// A record: an nfsserver.Change as one line of JSON.

package audit

import (
	"encoding/hex"
	"net/netip"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/nfsacl3"
)

// line is a JSON line under construction. Package encoding/json would allocate, and would replace
// bytes that are not UTF-8.
type line []byte

// appendChange appends the record of a change.
func appendChange(b []byte, c *nfsserver.Change) []byte {
	l := append(line(b), '{')
	l.time(c.Time)
	if a, ok := c.Remote.(interface{ AddrPort() netip.AddrPort }); ok {
		l.key("client")
		l = a.AddrPort().Addr().Unmap().AppendTo(append(l, '"'))
		l = append(l, '"')
		l.number("port", uint64(a.AddrPort().Port()))
	} else if c.Remote != nil {
		l.text("client", []byte(c.Remote.String()))
	}
	if c.RDMA {
		l.word("transport", "rdma")
	} else {
		l.word("transport", "tcp")
	}
	if c.Named {
		l.number("uid", uint64(c.UID))
		l.number("gid", uint64(c.GID))
	}
	if c.Principal != "" {
		l.word("sec", c.Flavor.String())
		l.text("principal", []byte(c.Principal))
	}
	if c.Acted {
		l.number("as_uid", uint64(c.ActsUID))
		l.number("as_gid", uint64(c.ActsGID))
	}
	l.word("op", c.Operation)
	if c.Export != "" {
		l.text("export", []byte(c.Export))
	}
	l.object(c, &c.At, "")
	if len(c.To.FH.Bytes()) > 0 {
		l.object(c, &c.To, "to_")
	}
	if c.Fileid != 0 {
		l.number("fileid", c.Fileid)
	}
	l.arguments(c)
	l.word("result", c.Status.String())
	return append(l, '}', '\n')
}

// appendLoss appends the record that stands for n lost records.
func appendLoss(b []byte, now time.Time, n uint64) []byte {
	l := append(line(b), '{')
	l.time(now)
	l.word("op", "LOST")
	l.number("records", n)
	return append(l, '}', '\n')
}

// object writes an object or a name. The path is known only for the root of its export and for
// names directly in it.
func (l *line) object(c *nfsserver.Change, p *nfsserver.Place, prefix string) {
	root := p.FH == c.Root && len(c.Root.Bytes()) > 0
	if p.Name == nil {
		if root {
			l.text("path", []byte(c.Export))
		}
		l.hex("fh", p.FH.Bytes())
		return
	}
	if root {
		l.open(prefix + "path")
		if c.Export != "/" {
			l.escape([]byte(c.Export))
		}
		*l = append(*l, '/')
		l.escape(p.Name)
		*l = append(*l, '"')
	}
	l.hex(prefix+"dir", p.FH.Bytes())
	if p.Fileid != 0 {
		l.number(prefix+"dir_fileid", p.Fileid)
	}
	l.text(prefix+"name", p.Name)
}

// arguments writes the arguments of the operation other than names.
func (l *line) arguments(c *nfsserver.Change) {
	if c.How != nil {
		l.word("how", c.How.String())
	}
	if c.Type != 0 {
		l.word("type", c.Type.String())
	}
	if c.Type == nfs3.TypeChr || c.Type == nfs3.TypeBlk {
		l.number("major", uint64(c.Rdev.Major))
		l.number("minor", uint64(c.Rdev.Minor))
	}
	if c.Target != nil {
		l.text("target", c.Target)
	}
	if a := c.Attr; a != nil {
		l.attr(a)
	}
	if a := c.ACLs; a != nil {
		if a.Mask&nfsacl3.MaskAccess != 0 {
			l.acl("acl", a.Access)
		}
		if a.Mask&nfsacl3.MaskDefault != 0 {
			l.acl("default_acl", a.Default)
		}
	}
}

func (l *line) attr(a *nfs3.Sattr) {
	if a.SetMode {
		l.open("mode")
		*l = strconv.AppendUint(append(*l, '0'), uint64(a.Mode), 8)
		*l = append(*l, '"')
	}
	if a.SetUID {
		l.number("owner", uint64(a.UID))
	}
	if a.SetGID {
		l.number("group", uint64(a.GID))
	}
	if a.SetSize {
		l.number("size", a.Size)
	}
	l.stamp("atime", a.AtimeHow, a.Atime)
	l.stamp("mtime", a.MtimeHow, a.Mtime)
}

// stamp writes a time to set; "now" is the server's time.
func (l *line) stamp(key string, how nfs3.TimeHow, t nfs3.Time) {
	switch how {
	case nfs3.SetToServerTime:
		l.word(key, "now")
	case nfs3.SetToClientTime:
		l.open(key)
		*l = strconv.AppendUint(*l, uint64(t.Sec), 10)
		*l = append(*l, '.')
		for n := uint32(1e8); n > max(t.Nsec, 1); n /= 10 { // the leading zeros
			*l = append(*l, '0')
		}
		*l = strconv.AppendUint(*l, uint64(t.Nsec), 10)
		*l = append(*l, '"')
	}
}

// acl writes a list in the syntax of setfacl(1).
func (l *line) acl(key string, list []nfsacl3.Entry) {
	l.open(key)
	for i, e := range list {
		if i > 0 {
			*l = append(*l, ',')
		}
		named := false
		switch e.Tag {
		case nfsacl3.TagUserObj:
			*l = append(*l, "user:"...)
		case nfsacl3.TagUser:
			*l, named = append(*l, "user:"...), true
		case nfsacl3.TagGroupObj:
			*l = append(*l, "group:"...)
		case nfsacl3.TagGroup:
			*l, named = append(*l, "group:"...), true
		case nfsacl3.TagMask:
			*l = append(*l, "mask:"...)
		default:
			*l = append(*l, "other:"...)
		}
		if named {
			*l = strconv.AppendUint(*l, uint64(e.ID), 10)
		}
		*l = append(*l, ':')
		for bit, c := range [3]byte{'r', 'w', 'x'} {
			if e.Perm&(4>>bit) == 0 {
				c = '-'
			}
			*l = append(*l, c)
		}
	}
	*l = append(*l, '"')
}

func (l *line) key(key string) {
	if (*l)[len(*l)-1] != '{' {
		*l = append(*l, ',')
	}
	*l = append(append(append(*l, '"'), key...), `":`...)
}

func (l *line) open(key string) {
	l.key(key)
	*l = append(*l, '"')
}

func (l *line) time(t time.Time) {
	l.open("time")
	*l = append(t.UTC().AppendFormat(*l, "2006-01-02T15:04:05.000000000Z"), '"')
}

func (l *line) number(key string, n uint64) {
	l.key(key)
	*l = strconv.AppendUint(*l, n, 10)
}

// word writes a value without escapes.
func (l *line) word(key, value string) {
	l.open(key)
	*l = append(append(*l, value...), '"')
}

func (l *line) hex(key string, b []byte) {
	l.open(key)
	*l = append(hex.AppendEncode(*l, b), '"')
}

func (l *line) text(key string, b []byte) {
	l.open(key)
	l.escape(b)
	*l = append(*l, '"')
}

// escape appends bytes chosen by a client, without loss. In the decoded JSON string a byte outside
// valid UTF-8 is \xHH, and a backslash is therefore doubled. Control characters are escaped as in
// JSON, also those beyond ASCII, so a terminal that shows the file interprets none.
func (l *line) escape(b []byte) {
	const digits = "0123456789abcdef"
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case r == utf8.RuneError && n == 1:
			*l = append(*l, '\\', '\\', 'x', digits[b[0]>>4], digits[b[0]&15])
		case r == '\\':
			*l = append(*l, `\\\\`...)
		case r == '"':
			*l = append(*l, `\"`...)
		case r < 0x20 || r >= 0x7f && r < 0xa0:
			*l = append(*l, '\\', 'u', '0', '0', digits[r>>4], digits[r&15])
		default:
			*l = append(*l, b[:n]...)
		}
		b = b[n:]
	}
}
