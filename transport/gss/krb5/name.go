// Principal names.

package krb5

import (
	"strings"

	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"
)

// Types of names (RFC 4120 §6.2).
const (
	nameService     = 2 // NT-SRV-INST: krbtgt
	nameServiceHost = 3 // NT-SRV-HST
)

// A name is a principal: components and realm.
type name struct {
	kind  int32
	parts []string
	realm string
}

// maxComponents limits a name from a peer. Real names have one to three components.
const maxComponents = 32

// String returns "service/host@REALM". As in MIT's library, a backslash escapes the separators in
// components, so that different names give different text.
func (n name) String() string {
	var b strings.Builder
	for i, p := range n.parts {
		if i > 0 {
			b.WriteByte('/')
		}
		escapeName(&b, p)
	}
	b.WriteByte('@')
	escapeName(&b, n.realm)
	return b.String()
}

func escapeName(b *strings.Builder, s string) {
	for i := range len(s) {
		switch c := s[i]; c {
		case '/', '@', '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case '\n':
			b.WriteString(`\n`)
		case '\t':
			b.WriteString(`\t`)
		case '\b':
			b.WriteString(`\b`)
		case 0:
			b.WriteString(`\0`)
		default:
			b.WriteByte(c)
		}
	}
}

// parseName parses "service/host@REALM", with realm as the default. Escaped characters are not
// supported: configured names have none.
func parseName(s, realm string) name {
	if at := strings.LastIndexByte(s, '@'); at >= 0 {
		s, realm = s[:at], s[at+1:]
	}
	n := name{kind: 1, parts: strings.Split(s, "/"), realm: realm}
	if len(n.parts) == 2 {
		n.kind = nameServiceHost
	}
	return n
}

// same compares components and realm. The type is a hint only (RFC 4120 §6.2).
func (n name) same(o name) bool {
	if n.realm != o.realm || len(n.parts) != len(o.parts) {
		return false
	}
	for i := range n.parts {
		if n.parts[i] != o.parts[i] {
			return false
		}
	}
	return true
}

// name reads field n with a PrincipalName, without the realm.
func (r *reader) name(n byte) name {
	s := r.sequence(n)
	out := name{kind: s.int32(0)}
	list := s.sequence(1)
	for !*r.bad && !list.s.Empty() {
		if len(out.parts) == maxComponents {
			r.check(false)
			break
		}
		out.parts = append(out.parts, string(list.inner(generalString).s))
	}
	r.check(len(out.parts) > 0)
	return out
}

func (w writer) name(n byte, v name) {
	w.sequence(n, func(w writer) {
		w.integer(0, int64(v.kind))
		w.field(1, func(b *cryptobyte.Builder) {
			b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) {
				for _, p := range v.parts {
					addText(b, p)
				}
			})
		})
	})
}
