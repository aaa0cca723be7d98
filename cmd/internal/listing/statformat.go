// The letters of stat -c.

package listing

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// expand writes format with each %[flags][width][.precision]LETTER replaced, and then end. What
// has no letter, at the end of format, is written as it is.
// printable is set for what goes to a person, who shall see no control characters.
func (p *Printer) expand(format string, f *Stat, end string, printable bool) error {
	var b strings.Builder
	for format != "" {
		plain, rest, found := strings.Cut(format, "%")
		b.WriteString(plain)
		if !found {
			break
		}
		spec := rest[:len(rest)-len(strings.TrimLeft(rest, "-+ #0123456789."))]
		if rest = rest[len(spec):]; rest == "" {
			b.WriteString("%" + spec)
			break
		}
		format = rest[1:]
		if rest[0] == '%' {
			b.WriteByte('%')
			continue
		}
		value := p.value(rest[0], f)
		if printable {
			value = text.HideControl(value)
		}
		b.WriteString(padded(spec, value))
	}
	_, err := io.WriteString(p.out, b.String()+end)
	return err
}

// padded is a value with the flags and width of printf.
func padded(spec, value string) string {
	flags := spec[:len(spec)-len(strings.TrimLeft(spec, "-+ #0"))]
	width, precision, hasPrecision := strings.Cut(spec[len(flags):], ".")
	if n, err := strconv.Atoi(precision); hasPrecision && err == nil && n < len(value) {
		value = value[:n]
	}
	n, err := strconv.Atoi(width)
	if err != nil || n > 1<<12 {
		return value
	}
	switch {
	case strings.Contains(flags, "-"):
		return text.PadRight(value, n)
	case strings.Contains(flags, "0"):
		return strings.Repeat("0", max(n-len(value), 0)) + value
	}
	return text.PadLeft(value, n)
}

// typeBits are those above the permissions in a mode of Unix.
var typeBits = map[nfs3.FileType]uint32{nfs3.TypeReg: 0o100000, nfs3.TypeDir: 0o040000, nfs3.TypeLnk: 0o120000,
	nfs3.TypeBlk: 0o060000, nfs3.TypeChr: 0o020000, nfs3.TypeSock: 0o140000, nfs3.TypeFIFO: 0o010000}

// value is what a letter stands for; one that nobody knows is "?", as stat(1) has it.
func (p *Printer) value(letter byte, f *Stat) string {
	a := &f.Attr
	mode := nfsclient.GoMode(a.Type, a.Mode)
	switch letter {
	case 'a':
		return strconv.FormatUint(uint64(a.Mode&0o7777), 8)
	case 'A':
		return text.ModeString(mode)
	case 'b':
		return fmt.Sprint((a.Used + 511) / 512)
	case 'B':
		return "512"
	case 'd':
		return fmt.Sprint(a.Fsid)
	case 'D':
		return strconv.FormatUint(a.Fsid, 16)
	case 'f':
		return strconv.FormatUint(uint64(typeBits[a.Type]|a.Mode&0o7777), 16)
	case 'F':
		return text.FileType(mode, int64(a.Size))
	case 'g':
		return fmt.Sprint(a.GID)
	case 'G':
		return p.owners.Group(a.GID)
	case 'h':
		return fmt.Sprint(a.Nlink)
	case 'H':
		return f.FH.String()
	case 'i':
		return fmt.Sprint(a.Fileid)
	case 'l':
		return f.target
	case 'n':
		return f.Arg
	case 'N':
		if a.Type == nfs3.TypeLnk {
			return text.QuoteAlways(f.Arg) + " -> " + text.QuoteAlways(f.target)
		}
		return text.QuoteAlways(f.Arg)
	case 'o':
		return fmt.Sprint(f.FS.MaxRead())
	case 's':
		return fmt.Sprint(a.Size)
	case 't':
		return strconv.FormatUint(uint64(a.Rdev.Major), 16)
	case 'T':
		return strconv.FormatUint(uint64(a.Rdev.Minor), 16)
	case 'u':
		return fmt.Sprint(a.UID)
	case 'U':
		return p.owners.User(a.UID)
	}
	return p.timeValue(letter, a)
}

// timeValue is about the letters of times; the large ones are seconds since 1970.
func (p *Printer) timeValue(letter byte, a *nfs3.Fattr) string {
	var t nfs3.Time
	switch letter | 0x20 {
	case 'x':
		t = a.Atime
	case 'y':
		t = a.Mtime
	case 'z':
		t = a.Ctime
	case 'w': // birth, which NFSv3 does not know
		return map[byte]string{'w': "-", 'W': "0"}[letter]
	default:
		return "?"
	}
	if letter&0x20 == 0 {
		return fmt.Sprint(t.Sec)
	}
	return t.Time().Format(statTimeFmt)
}
