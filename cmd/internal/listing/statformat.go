// The directives in the format of stat -c.

package listing

import (
	"errors"
	"io"
	"math"
	"strings"
	"syscall"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"golang.org/x/sys/unix"
)

// expand writes format with each %[flags][width][.precision]LETTER replaced, and then end. An
// invalid format is written up to the mistake, and the error names the mistake. With printable,
// control characters are hidden.
func (p *Printer) expand(format string, f *Stat, end string, printable bool) error {
	var b strings.Builder
	var failure error
	for format != "" {
		plain, rest, found := strings.Cut(format, "%")
		b.WriteString(plain)
		if !found {
			break
		}
		s, rest := parseSpec(rest)
		letter := rest[:min(1, len(rest))]
		format = rest[len(letter):]
		switch {
		case letter == "" || letter == "%":
			if s.text != "" {
				p.invalid = session.Finished{Text: text.QuoteAlways("%"+s.text+letter) + ": invalid directive"}
				_, err := io.WriteString(p.out, b.String())
				return errors.Join(err, p.invalid)
			}
			b.WriteByte('%')
			continue
		case letter == "C": // NFSv3 has no security context
			failure = session.Finished{Text: "failed to get security context of " + text.QuoteNeeded(f.Arg) + ": " + cli.Reason(syscall.ENODATA)}
		case (letter == "H" || letter == "L") && format != "" && strings.Contains("dr", format[:1]):
			letter, format = letter+format[:1], format[1:]
		}
		value := p.value(letter, f, s)
		if printable {
			value = text.HideControl(value)
		}
		b.WriteString(value)
	}
	if _, err := io.WriteString(p.out, b.String()+end); err != nil {
		return err
	}
	return failure
}

// typeBits are the file-type bits in a Unix mode.
var typeBits = map[nfs3.FileType]uint32{nfs3.TypeReg: 0o100000, nfs3.TypeDir: 0o040000, nfs3.TypeLnk: 0o120000,
	nfs3.TypeBlk: 0o060000, nfs3.TypeChr: 0o020000, nfs3.TypeSock: 0o140000, nfs3.TypeFIFO: 0o010000}

// value expands a directive; an unknown one is "?", as in stat(1).
func (p *Printer) value(letter string, f *Stat, s spec) string {
	a := &f.Attr
	mode := nfsclient.GoMode(a.Type, a.Mode)
	device := unix.Mkdev(a.Rdev.Major, a.Rdev.Minor)
	switch letter {
	case "a":
		return s.octal(uint64(a.Mode & 0o7777))
	case "A":
		return s.string(text.ModeString(mode))
	case "b":
		return s.unsigned((a.Used + 511) / 512)
	case "B":
		return s.unsigned(512)
	case "d":
		return s.unsigned(a.Fsid)
	case "D":
		return s.hex(a.Fsid)
	case "Hd":
		return s.unsigned(uint64(unix.Major(a.Fsid)))
	case "Ld":
		return s.unsigned(uint64(unix.Minor(a.Fsid)))
	case "f":
		return s.hex(uint64(typeBits[a.Type] | a.Mode&0o7777))
	case "F":
		return s.string(text.FileType(mode, int64(a.Size)))
	case "g":
		return s.unsigned(uint64(a.GID))
	case "G":
		return s.string(p.owners.Group(a.GID))
	case "h":
		return s.unsigned(uint64(a.Nlink))
	case "i":
		return s.unsigned(a.Fileid)
	case "l": // only in the default format, not in -c
		if p.Format == nil {
			return s.string(f.target)
		}
	case "n":
		return s.string(f.Arg)
	case "N":
		name := text.QuoteAlways(f.Arg)
		if a.Type == nfs3.TypeLnk {
			name += " -> " + text.QuoteAlways(f.target)
		}
		return s.string(name)
	case "o":
		return s.unsigned(uint64(f.FS.MaxRead()))
	case "r":
		return s.unsigned(device)
	case "R":
		return s.hex(device)
	case "s":
		return s.signed(int64(min(a.Size, math.MaxInt64)))
	case "t":
		return s.hex(uint64(a.Rdev.Major))
	case "T":
		return s.hex(uint64(a.Rdev.Minor))
	case "Hr":
		return s.unsigned(uint64(a.Rdev.Major))
	case "Lr":
		return s.unsigned(uint64(a.Rdev.Minor))
	case "u":
		return s.unsigned(uint64(a.UID))
	case "U":
		return s.string(p.owners.User(a.UID))
	}
	return timeValue(letter, a, s)
}

// timeValue expands time directives. Upper-case letters are seconds since 1970.
func timeValue(letter string, a *nfs3.Fattr, s spec) string {
	// w is the birth time, which NFSv3 lacks
	times := map[string]nfs3.Time{"x": a.Atime, "y": a.Mtime, "z": a.Ctime, "w": {}}
	t, ok := times[strings.ToLower(letter)]
	switch {
	case !ok:
		return "?"
	case letter == "w":
		return s.string("-")
	case letter == strings.ToLower(letter):
		return s.string(t.Time().Format(statTimeFmt))
	}
	return s.epoch(int64(t.Sec), int(t.Nsec))
}
