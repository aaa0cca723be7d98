// The exported names of the libraries: each has a user outside its package, or a reason.

package test

import (
	"go/token"
	"go/types"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// kept has exported names, or beginnings of names, with their purposes. Nothing else in the module
// uses them, and no other rule in reason covers them.
var kept = map[string]string{
	"nfsclient.FS.ACLs":               "for programs of one's own: what getfacl shows",
	"nfsclient.FS.Access":             "a procedure of NFS, as every other is a method of FS",
	"nfsclient.FS.Lchown":             "the counterpart of os.Lchown",
	"nfsclient.FS.Truncate":           "the counterpart of os.Truncate",
	"nfsclient.File.Chmod":            "the counterpart of os.File.Chmod",
	"nfsclient.FileInfo.AccessTime":   "the other time beside ModTime",
	"nfsclient.MountError.Path":       "what was refused, for those who take the error apart",
	"nfsclient/fusefs.MountPoint.Dir": "for embedders: where it is mounted",
	"nfsclient/vmware.":               "the functions that callers of go-nfs-client know, with its signatures",
	"nfsserver/exports.Error":         "for errors.As: where the mistake stands",
	"nfsserver/idmap.":                "for programs of one's own with RPCSEC_GSS",
	"nfsserver/fstest.Allocates":      "for FS of other modules, as nfsserver/juicefs",
	"nfsclient.FlavorError.Path":      "for errors.As",
	"nfsserver/fstest.ChargesHoles":   "for FS of other modules, as nfsserver/juicefs",
	"nfsserver/fstest.NoHardLinks":    "for FS of other modules, as nfsserver/adapters",
	"nfsserver/fstest.NoSpecialFiles": "for FS of other modules, as nfsserver/adapters",
	"nfsserver/fstest.NoSymlinks":     "for FS of other modules, as nfsserver/adapters",
	"nfsserver/fstest.SmallFiles":     "for FS of other modules, as nfsserver/adapters",
	"nfsserver/perm.":                 "for FS of other modules whose objects no kernel guards, as nfsserver/juicefs",
	"nfsserver.CallID.":               "for FS of other modules, as nfsserver/juicefs",
	"nfsserver.Caller.":               "for Trees of one's own: what they can choose by",
	"nfsserver.MaxTreeRef":            "the room in handles for an FS of one's own",
	"nfsserver/nlm.LockInfo.Tree":     "for embedders with Trees",
	"nfsserver.MaxIO":                 "what an FS of one's own is asked for at most",
	"nfsserver.Info.SyncSetsTimes":    "for FS of other modules, as nfsserver/juicefs",
	"rnic.Providers":                  "what Open takes",
	"rnic/iwarp/term.LayerDDP":        "the RFC's list",
	"rnic/iwarp/term.MPAClosed":       "the RFC's list",
	"rnic/iwarp/term.RDMAP":           "the RFC's list",
	"rnic/roce/":                      "the formats of the specification, whole",
	"rnic/roce.":                      "for users of the verbs without a connection manager: UC, UD, and programs like the pingpongs",
	"rpcrdma.ClosedError":             "for errors.As: why a connection ended",
	"rpcrdma.ErrCode":                 "of a header",
	"rpcrdma.Code":                    "the RFC's list",
	"rpcrdma.Header.":                 "the RFC's fields",
	"transport/gss.":                  "for programs of one's own with RPCSEC_GSS",
	"transport/gss/krb5.":             "for programs of one's own with Kerberos",
	"transport/certs.":                "for servers and clients of one's own",
	"xdr.Decoder.Int":                 "XDR's types, whole",
	"xdr.Encoder.Int":                 "XDR's types, whole",
}

// isLibrary reports whether a package, named without the module, may be imported by users.
func isLibrary(name string) bool {
	return !in(name, "cmd", "test") && !strings.Contains("/"+name+"/", "/internal/")
}

var (
	codeSpan = regexp.MustCompile("(?s)```.*?```|`[^`\n]+`")
	codeName = regexp.MustCompile(`\b[A-Z]\w*\b`)
)

// readDocuments collects the names that documents for users write as code.
func (s *surface) readDocuments(t *testing.T) {
	for _, doc := range documents(t) {
		if strings.HasSuffix(doc, "conformance.md") || strings.HasPrefix(doc, "linux") || strings.HasPrefix(doc, "../docs/reference/") {
			continue // which name tests, or are made from the code
		}
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, span := range codeSpan.FindAll(text, -1) {
			for _, name := range codeName.FindAll(span, -1) {
				s.promised[string(name)] = true
			}
		}
	}
}

// An exported is an exported name of a library: of its package, or a field or method of one of its
// types.
type exported struct {
	obj   types.Object
	owner *types.TypeName // of a field or method, otherwise nil
	pkg   string
}

func (e exported) String() string {
	if e.owner != nil {
		return e.pkg + "." + e.owner.Name() + "." + e.obj.Name()
	}
	return e.pkg + "." + e.obj.Name()
}

// names lists the libraries' exported names. A type without a capital has no surface.
func (s *surface) names() (all []exported) {
	for path, p := range s.checked {
		name := strings.TrimPrefix(path, module)
		if !isLibrary(name) {
			continue
		}
		for _, n := range p.Scope().Names() {
			o := p.Scope().Lookup(n)
			if !o.Exported() {
				continue
			}
			all = append(all, exported{o, nil, name})
			tn, ok := o.(*types.TypeName)
			if !ok || tn.IsAlias() {
				continue
			}
			named := tn.Type().(*types.Named)
			for m := range named.Methods() {
				if m.Exported() {
					all = append(all, exported{m, tn, name})
				}
			}
			switch u := named.Underlying().(type) {
			case *types.Struct:
				for f := range u.Fields() {
					if f.Exported() {
						all = append(all, exported{f, tn, name})
					}
				}
			case *types.Interface:
				for m := range u.ExplicitMethods() {
					if m.Exported() {
						all = append(all, exported{m, tn, name})
					}
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b exported) int { return strings.Compare(a.String(), b.String()) })
	return all
}

// reach marks the types in the signatures of used names: a user meets them without their names.
func (s *surface) reach(all []exported) {
	byPos := map[token.Pos]bool{}
	var meet func(t types.Type)
	meet = func(t types.Type) {
		switch t := t.(type) {
		case *types.Named:
			s.used[t.Obj().Pos()] = true
			for a := range t.TypeArgs().Types() {
				meet(a)
			}
		case *types.Alias:
			s.used[t.Obj().Pos()] = true
			meet(types.Unalias(t))
		case *types.Pointer:
			meet(t.Elem())
		case *types.Slice:
			meet(t.Elem())
		case *types.Array:
			meet(t.Elem())
		case *types.Map:
			meet(t.Key())
			meet(t.Elem())
		case *types.Chan:
			meet(t.Elem())
		case *types.Tuple:
			for v := range t.Variables() {
				meet(v.Type())
			}
		case *types.Signature:
			meet(t.Params())
			meet(t.Results())
		}
	}
	for grown := true; grown; {
		grown = false
		for _, e := range all {
			_, isType := e.obj.(*types.TypeName)
			if isType || byPos[e.obj.Pos()] || s.reason(e) == "" {
				continue
			}
			byPos[e.obj.Pos()], grown = true, true
			meet(e.obj.Type())
		}
	}
}

// reason returns why a name is exported: "" if it has no reason.
func (s *surface) reason(e exported) string {
	switch {
	case s.used[e.obj.Pos()]:
		return "used"
	case s.promised[e.obj.Name()]:
		return "promised"
	}
	switch o := e.obj.(type) {
	case *types.Func:
		if e.owner != nil && (s.asked[o.Name()] || s.implements(e.owner, o.Name())) {
			return "implements"
		}
		if e.owner != nil && types.IsInterface(e.owner.Type()) && s.used[e.owner.Pos()] {
			return "seam"
		}
	case *types.Const:
		if n, ok := o.Type().(*types.Named); ok && n.Obj().Pkg() == o.Pkg() && s.memberUsed(n) {
			return "member"
		}
	case *types.Var:
		switch {
		case e.owner == nil && strings.HasPrefix(o.Name(), "Err"):
			return "error" // for callers to match
		case e.owner == nil:
		case in(e.pkg, "xdr"):
			return "wire" // the fields of a message are those in its RFC
		case settings.MatchString(e.owner.Name()):
			return "setting"
		}
	}
	return ""
}

// settings matches the names of types with fields for users to fill in, or to print as a whole.
var settings = regexp.MustCompile(`(Config|Options|Stats)$`)

// implements reports whether a method is one that an interface requires from its type.
func (s *surface) implements(owner *types.TypeName, method string) bool {
	if types.IsInterface(owner.Type()) {
		return false
	}
	return slices.ContainsFunc(s.interfaces, func(i *types.Interface) bool {
		for m := range i.Methods() {
			if m.Name() == method {
				return types.Implements(owner.Type(), i) || types.Implements(types.NewPointer(owner.Type()), i)
			}
		}
		return false
	})
}

// memberUsed reports whether a constant of a type is used. Then all constants of the type are kept.
func (s *surface) memberUsed(n *types.Named) bool {
	scope := n.Obj().Pkg().Scope()
	for _, name := range scope.Names() {
		if c, ok := scope.Lookup(name).(*types.Const); ok && c.Type() == types.Type(n) && s.used[c.Pos()] {
			return true
		}
	}
	return false
}

func TestExportedNamesHaveUsers(t *testing.T) {
	s := loadSurface(t)
	all := s.names()
	s.reach(all)
	count, met := map[string]int{}, map[string]bool{}
	for _, e := range all {
		why := s.reason(e)
		if why == "" {
			for k := range kept {
				if strings.HasPrefix(e.String(), k) {
					why, met[k] = "kept", true
				}
			}
		}
		count[why]++
		if why == "" {
			t.Errorf("%s: nothing outside of its package uses %s: unexport it, delete it, or say in kept what it is for", s.fset.Position(e.obj.Pos()), e)
		}
	}
	for k := range maps.Keys(kept) {
		if !met[k] {
			t.Errorf("kept has %q, which is used, or gone", k)
		}
	}
	t.Logf("%d names of libraries, exported because: %v", len(all), count)
}
