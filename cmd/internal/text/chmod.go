// Modes in the syntax of chmod(1) and mkdir -m.

package text

import (
	"io/fs"
	"strings"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

const (
	modeBits = 0o7777
	setIDs   = 0o6000 // a directory keeps these bits unless the mode names them
)

// ParseMode parses a mode in the syntax of chmod(1): octal, or clauses such as u=rwx,go-w. Clauses
// change the mode "from", whose file type matters for X and the set-ID bits. The umask applies to
// clauses without u, g, o or a.
func ParseMode(s string, from, umask fs.FileMode) (fs.FileMode, error) {
	bits, keep := nfsclient.WireMode(from), uint32(0)
	if from.IsDir() {
		keep = setIDs
	}
	if n, ok := octalMode(s); ok {
		if len(s) > 4 { // more than four digits name all bits, the set-ID bits too
			keep = 0
		}
		return nfsclient.GoMode(nfs3.TypeReg, bits&keep|n), nil
	}
	for clause := range strings.SplitSeq(s, ",") {
		if err := modeClause(clause, keep, uint32(umask), &bits); err != nil {
			return 0, err
		}
	}
	return nfsclient.GoMode(nfs3.TypeReg, bits), nil
}

// octalMode parses octal digits, with any number of leading zeros.
func octalMode(s string) (n uint32, ok bool) {
	for _, c := range []byte(s) {
		if n = n<<3 | uint32(c-'0'); c < '0' || c > '7' || n > modeBits {
			return 0, false
		}
	}
	return n, s != ""
}

// modeClause applies one clause, [ugoa]*([-+=]([rwxXst]*|[ugo]))+ or [-+=]OCTAL, to bits.
// keep is setIDs for a directory, otherwise 0.
func modeClause(clause string, keep, umask uint32, bits *uint32) error {
	rest := strings.TrimLeft(clause, "ugoa")
	classes := uint32(0) // the bits of the named classes; 0: none named
	for _, c := range clause[:len(clause)-len(rest)] {
		classes |= map[rune]uint32{'u': 0o4700, 'g': 0o2070, 'o': 0o1007, 'a': modeBits}[c]
	}
	for first := true; first || rest != ""; first = false {
		if rest == "" || !strings.Contains("+-=", rest[:1]) {
			return fs.ErrInvalid
		}
		op := rest[0]
		end := strings.IndexAny(rest[1:], "+-=") + 1
		if end == 0 {
			end = len(rest)
		}
		perms := rest[1:end]
		rest = rest[end:]
		if n, ok := octalMode(perms); ok {
			if classes != 0 || rest != "" {
				return fs.ErrInvalid
			}
			change(bits, op, n, modeBits, 0)
			continue
		}
		set, err := permissions(perms, *bits, keep != 0)
		if err != nil {
			return err
		}
		among, kept := classes, keep&^set
		if classes == 0 {
			among = modeBits
			set &^= umask
		} else {
			kept = keep &^ (set & classes)
		}
		change(bits, op, set, among, kept)
	}
	return nil
}

// change applies one operation to those bits in among that are not in keep.
func change(bits *uint32, op byte, set, among, keep uint32) {
	among &^= keep
	set &= among
	switch op {
	case '+':
		*bits |= set
	case '-':
		*bits &^= set
	case '=':
		*bits = *bits&^among | set
	}
}

// permissions returns the bits that letters stand for, for all three classes. bits is the file's
// present mode. letters are any of rwxXst, or one of ugo, whose permissions are copied.
func permissions(letters string, bits uint32, dir bool) (set uint32, err error) {
	switch letters {
	case "u":
		return bits >> 6 & 7 * 0o111, nil
	case "g":
		return bits >> 3 & 7 * 0o111, nil
	case "o":
		return bits & 7 * 0o111, nil
	}
	for _, c := range letters {
		v, ok := map[rune]uint32{'r': 0o444, 'w': 0o222, 'x': 0o111, 'X': 0, 's': setIDs, 't': 0o1000}[c]
		if !ok {
			return 0, fs.ErrInvalid
		}
		if c == 'X' && (dir || bits&0o111 != 0) {
			v = 0o111
		}
		set |= v
	}
	return set, nil
}
