// Match compared with a slow model written from exports(5), on random files.

package exports_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
)

// modelHosts has the model's hosts with their addresses. Each address resolves to the names of the
// hosts that have it.
var modelHosts = map[string][]string{
	"a.x": {"10.0.0.1", "2001:db8::1"}, "b.x": {"10.0.0.2"}, "ab.x": {"10.0.0.3", "10.0.0.1"},
	"ba.y": {"2001:db8::2", "10.0.0.4"}, "a.b.x": {"10.0.0.5"}, "c7.y": {"2001:db8::7"},
}

// modelAddrs has the addresses of the clients. Two have no name.
var modelAddrs = []string{"10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.7", "138.0.0.1",
	"2001:db8::", "2001:db8::1", "2001:db8::2", "2001:db8::7", "a001:db8::1"}

// A modelResolver knows all names except those in unknown.
type modelResolver struct{ unknown map[string]bool }

func (r modelResolver) Addrs(host string) (addrs []netip.Addr, known bool) {
	if r.unknown[host] {
		return nil, false
	}
	for _, a := range modelHosts[host] {
		addrs = append(addrs, netip.MustParseAddr(a))
	}
	return addrs, true
}

func (r modelResolver) Names(addr netip.Addr) (names []string, known bool) {
	if r.unknown[addr.String()] {
		return nil, false
	}
	return modelNames(addr.String()), true
}

// modelNames returns an address's names.
func modelNames(addr string) (names []string) {
	for host, addrs := range modelHosts {
		if slices.Contains(addrs, addr) {
			names = append(names, host)
		}
	}
	return names
}

// A modelRule is a client in the file, with its class in the order of exports(5).
type modelRule struct {
	class int    // 0: hosts and addresses, 1: networks, 2: wildcards, 3: everybody
	spec  string // the client as written in the file
	bits  int    // the length of a network or an address
	base  string // the address of a network or a host
	want  string // the client's options
}

// matches reports whether the rule's client matches addr. It is as simple as possible: bit by bit,
// character by character.
func (r *modelRule) matches(addr string) bool {
	switch {
	case r.class == 3:
		return true
	case r.class == 2:
		return slices.ContainsFunc(modelNames(addr), func(name string) bool { return modelGlob(r.spec, name) })
	case r.base == "":
		return slices.Contains(modelHosts[strings.ToLower(r.spec)], addr)
	}
	a, b := netip.MustParseAddr(addr).AsSlice(), netip.MustParseAddr(r.base).AsSlice()
	if len(a) != len(b) {
		return false
	}
	for i := range r.bits {
		if (a[i/8]^b[i/8])>>(7-i%8)&1 != 0 {
			return false
		}
	}
	return true
}

// modelGlob matches *, ?, and lists with ranges, as in exports(5). A dot is an ordinary character.
func modelGlob(pattern, name string) bool {
	switch {
	case pattern == "":
		return name == ""
	case pattern[0] == '*':
		return modelGlob(pattern[1:], name) || name != "" && modelGlob(pattern, name[1:])
	case name == "":
		return false
	case pattern[0] == '?':
		return modelGlob(pattern[1:], name[1:])
	case pattern[0] == '[':
		list, rest, _ := strings.Cut(pattern[1:], "]")
		others, not := strings.CutPrefix(list, "^") // "^" negates, as in exportfs(8)
		return strings.Contains(modelList(others), name[:1]) != not && modelGlob(rest, name[1:])
	}
	return pattern[0] == name[0] && modelGlob(pattern[1:], name[1:])
}

// modelList returns the characters of a list such as ab0-9.
func modelList(list string) (all string) {
	for i := 0; i < len(list); i++ {
		if i+2 < len(list) && list[i+1] == '-' {
			for c := list[i]; c <= list[i+2]; c++ {
				all += string(c)
			}
			i += 2
			continue
		}
		all += list[i : i+1]
	}
	return all
}

// modelDecide returns the rule that decides according to exports(5): the first match in the first
// class that has a match.
func modelDecide(rules []modelRule, addr string) *modelRule {
	for class := range 4 {
		for i := range rules {
			if r := &rules[i]; r.class == class && r.matches(addr) {
				return r
			}
		}
	}
	return nil
}

// modelClient returns a random client.
func modelClient(r *rand.Rand) modelRule {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	addr := pick(modelAddrs...)
	bits := netip.MustParseAddr(addr).BitLen()
	length := pick("0", "1", fmt.Sprint(bits-3), fmt.Sprint(bits-1), fmt.Sprint(bits))
	switch r.IntN(7) {
	case 0:
		return modelRule{class: 0, spec: addr, base: addr, bits: bits}
	case 1:
		return modelRule{class: 0, spec: pick("a.x", "A.x", "b.x", "ab.x", "BA.Y", "a.b.x", "c7.y", "none.x")}
	case 2, 3:
		n := 0
		fmt.Sscan(length, &n)
		return modelRule{class: 1, spec: addr + "/" + length, base: addr, bits: n}
	case 4:
		n := r.IntN(33)
		mask := netip.PrefixFrom(netip.MustParseAddr("255.255.255.255"), n).Masked().Addr()
		return modelRule{class: 1, spec: "10.0.0.1/" + mask.String(), base: "10.0.0.1", bits: n}
	case 5:
		return modelRule{class: 2, spec: pick("*.x", "?.x", "a*", "*b*", "[a-b].x", "*.y", "c[0-9].y", "[^b].x", "**", "*.*.x", "[ac]?.y")}
	}
	return modelRule{class: 3, spec: "*"}
}

// modelOptions returns a random list of options, and all options that are then in force. Defaults
// stand before the client, in a word that begins with a dash.
func modelOptions(r *rand.Rand) (defaults, list, want string) {
	var words [2][]string
	field := func(usual string, others ...string) string {
		value := usual
		for place := range words {
			if n := r.IntN(len(others) + 3); n <= len(others) {
				value = append([]string{usual}, others...)[n]
				words[place] = append(words[place], value)
			}
		}
		return value
	}
	want = field("ro", "rw") + "," + field("sync", "async") + "," + field("secure", "insecure") + "," + field("root_squash", "no_root_squash")
	if all := field("no_all_squash", "all_squash"); all == "all_squash" {
		want += "," + all
	}
	if acl := field("acl", "no_acl"); acl == "no_acl" {
		want += "," + acl
	}
	uid, gid := field("anonuid=65534", "anonuid=0", "anonuid=4294967294"), field("anongid=65534", "anongid=7")
	if uid+gid != "anonuid=65534anongid=65534" {
		want += "," + uid + "," + gid
	}
	for place := range words {
		r.Shuffle(len(words[place]), func(i, j int) { words[place][i], words[place][j] = words[place][j], words[place][i] })
	}
	return strings.Join(words[0], ","), strings.Join(words[1], ","), want
}

// modelFile returns a random export in one of the forms that the grammar permits, and its rules.
func modelFile(r *rand.Rand) (text string, rules []modelRule) {
	var b strings.Builder
	given := map[string]bool{}
	blank := func() string { return []string{" ", "\t", "  ", " \\\n ", "\\\r\n\t"}[r.IntN(5)] }
	for range 1 + r.IntN(8) {
		c := modelClient(r)
		same := fmt.Sprint(c.class, strings.ToLower(c.spec))
		if c.class == 1 {
			same = netip.PrefixFrom(netip.MustParseAddr(c.base), c.bits).Masked().String()
		}
		if given[same] {
			continue
		}
		given[same] = true
		var defaults, list string
		defaults, list, c.want = modelOptions(r)
		if b.WriteString([]string{"/d", `"/d"`, `/\144`, "/d/", "//d"}[r.IntN(5)] + blank()); defaults != "" {
			b.WriteString("-" + defaults + blank())
		}
		if b.WriteString(c.spec); list != "" {
			b.WriteString("(" + list + ")")
		}
		b.WriteString([]string{"\n", "\r\n", " # c(rw)\n", "\n\n# /d *(rw)\n", "\n  \t\n"}[r.IntN(5)])
		rules = append(rules, c)
	}
	return b.String(), rules
}

// modelMust parses a text with one export.
func modelMust(t *testing.T, text string) *exports.Export {
	t.Helper()
	f, err := exports.Parse("f", []byte(text))
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	if len(f.Exports) != 1 {
		t.Fatalf("%q: %d exports, want 1", text, len(f.Exports))
	}
	return f.Exports[0]
}

// answer returns a match as text.
func answer(m exports.Match) string {
	switch {
	case m.Pending:
		return "pending"
	case m.Client == nil:
		return "none"
	}
	return m.Client.Spec + " " + m.Client.Options.String()
}

// TestDecisionsAreThoseOfTheManual: every model address gets the rule determined by the order of
// exports(5), with the options in the file and their defaults.
func TestDecisionsAreThoseOfTheManual(t *testing.T) {
	for seed := range uint64(2000) {
		text, rules := modelFile(rand.New(rand.NewPCG(seed, 0)))
		x := modelMust(t, text)
		for _, addr := range modelAddrs {
			want := "none"
			if r := modelDecide(rules, addr); r != nil {
				want = r.spec + " " + r.want
			}
			got := answer(x.Match(netip.MustParseAddr(addr), modelResolver{}))
			if got != want {
				t.Fatalf("seed %d, %s: %q, want %q, by\n%s", seed, addr, got, want, text)
			}
		}
	}
}

// TestUnknownNamesGiveNoOtherAnswer: while names are unknown, the result is pending or does not
// depend on them. ByName is set if names contributed to the result.
func TestUnknownNamesGiveNoOtherAnswer(t *testing.T) {
	pending := 0
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		text, _ := modelFile(r)
		x := modelMust(t, text)
		unknown := map[string]bool{}
		for _, key := range append(modelAddrs, "a.x", "b.x", "ab.x", "ba.y", "a.b.x", "c7.y", "none.x") {
			unknown[key] = r.IntN(2) == 0
		}
		for _, addr := range modelAddrs {
			a := netip.MustParseAddr(addr)
			m := x.Match(a, modelResolver{unknown})
			got, want := answer(m), answer(x.Match(a, modelResolver{}))
			if m.Pending {
				pending++
				if m.Client != nil {
					t.Fatalf("seed %d, %s: pending with client %s, want none, by\n%s", seed, addr, m.Client.Spec, text)
				}
				if !m.ByName {
					t.Fatalf("seed %d, %s: pending, and not by name, by\n%s", seed, addr, text)
				}
				continue
			}
			if got != want {
				t.Fatalf("seed %d, %s: %q with some names, %q with all, by\n%s", seed, addr, got, want, text)
			}
		}
	}
	if pending == 0 {
		t.Error("no answer was pending, want many")
	}
}

// TestUnrelatedRulesChangeNothing: a rule that matches no model client, and another export, change
// no result, wherever they stand.
func TestUnrelatedRulesChangeNothing(t *testing.T) {
	unrelated := []string{"/d 192.0.2.1(rw,no_root_squash)\n", "/d 192.0.2.0/24(rw)\n", "/d other.z(rw)\n", "/d *.z(rw)\n", "/d 2001:db9::/32(rw)\n",
		"/d/e *(rw,no_root_squash)\n", "/ *(rw)\n", "/dd *(rw)\n", "# /d *(rw)\n"}
	for seed := range uint64(500) {
		text, _ := modelFile(rand.New(rand.NewPCG(seed, 2)))
		x := modelMust(t, text)
		for _, line := range unrelated {
			for _, longer := range []string{line + text, text + line} {
				f, err := exports.Parse("f", []byte(longer))
				if err != nil {
					t.Fatalf("%q: %v", longer, err)
				}
				i := slices.IndexFunc(f.Exports, func(x *exports.Export) bool { return x.Path == "/d" })
				for _, addr := range modelAddrs {
					a := netip.MustParseAddr(addr)
					got, want := answer(f.Exports[i].Match(a, modelResolver{})), answer(x.Match(a, modelResolver{}))
					if got != want {
						t.Fatalf("seed %d, %s: %q with the line %q, %q without it, by\n%s", seed, addr, got, line, want, text)
					}
				}
			}
		}
	}
}
