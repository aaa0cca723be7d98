// Modes as chmod(1) and mkdir -m read them.

package text

import (
	"io/fs"
	"strings"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// ParseMode reads a mode of chmod(1): octal, or clauses as in u=rwx,go-w that are
// applied to the mode from, whose type counts for X. The umask counts where a
// clause names nobody.
func ParseMode(s string, from, umask fs.FileMode) (fs.FileMode, error) {
	if s != "" && strings.Trim(s, "01234567") == "" && len(s) <= 6 {
		var n uint32
		for _, c := range []byte(s) {
			n = n<<3 | uint32(c-'0')
		}
		if n > 0o7777 {
			return 0, fs.ErrInvalid
		}
		return nfsclient.GoMode(nfs3.TypeReg, n), nil
	}
	bits := nfsclient.WireMode(from)
	for clause := range strings.SplitSeq(s, ",") {
		if err := modeClause(clause, from.IsDir(), uint32(umask), &bits); err != nil {
			return 0, err
		}
	}
	return nfsclient.GoMode(nfs3.TypeReg, bits), nil
}

// modeClause applies one clause, [ugoa]*([-+=][rwxXstugo]*)+, to bits.
func modeClause(clause string, dir bool, umask uint32, bits *uint32) error {
	who := clause[:len(clause)-len(strings.TrimLeft(clause, "ugoa"))]
	rest := clause[len(who):]
	mask, keep := uint32(0), ^uint32(0)
	for _, c := range who {
		mask |= map[rune]uint32{'u': 0o4700, 'g': 0o2070, 'o': 0o1007, 'a': 0o7777}[c]
	}
	if who == "" {
		mask, keep = 0o7777, ^umask
	}
	if rest == "" {
		return fs.ErrInvalid
	}
	for rest != "" {
		op := rest[0]
		end := strings.IndexAny(rest[1:], "+-=") + 1
		if end == 0 {
			end = len(rest)
		}
		perms := rest[1:end]
		rest = rest[end:]
		var set uint32
		for _, c := range perms {
			v, ok := map[rune]uint32{'r': 0o444, 'w': 0o222, 'x': 0o111, 's': 0o6000, 't': 0o1000,
				'u': *bits >> 6 & 7 * 0o111, 'g': *bits >> 3 & 7 * 0o111, 'o': *bits & 7 * 0o111}[c]
			if c == 'X' {
				if ok = true; dir || *bits&0o111 != 0 {
					v = 0o111
				}
			}
			if !ok {
				return fs.ErrInvalid
			}
			set |= v
		}
		set &= mask & keep
		switch op {
		case '+':
			*bits |= set
		case '-':
			*bits &^= set
		case '=':
			*bits = *bits&^mask | set
		default:
			return fs.ErrInvalid
		}
	}
	return nil
}
