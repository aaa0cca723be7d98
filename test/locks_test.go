// Locks: a function that takes a lock releases it.

package test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"
)

// lockFolders are the folders whose locks are checked.
var lockFolders = []string{"rnic/", "rpcrdma/", "transport/"}

// passesLock lists the functions that are allowed to pass a lock on, with the reasons.
var passesLock = map[string]string{
	"rnic/provider_qp.go Return":            "the end of Borrow, and a lock by another name",
	"transport/internal/ktls/conn.go alert": "takes the lock by TryLock",
	"rnic/rconn/send.go tryUpdate":          "takes the lock by TryLock",
	"rnic/iwarp/receiver.go release":        "aim takes the lock of the memory that a read places in",
}

// TestLocksEndWhereTheyBegin: each function releases the locks that it takes. A function may also
// release its caller's lock for a while, and take it again.
func TestLocksEndWhereTheyBegin(t *testing.T) {
	eachFile(t, func(path string, src []byte) {
		if strings.HasSuffix(path, "_test.go") || !slices.ContainsFunc(lockFolders, func(f string) bool { return strings.HasPrefix(path, f) }) {
			return
		}
		for name, mu := range lockPassers(t, path, src) {
			if passesLock[path+" "+name] == "" {
				t.Errorf("%s: %s passes %s on to another function: lock and unlock in one, and return what follows the unlock", path, name, mu)
			}
		}
	})
}

// lockPassers returns the functions in a file that take a lock without its release, or the reverse,
// with the lock's name.
func lockPassers(t *testing.T, path string, src []byte) map[string]string {
	file, err := parser.ParseFile(token.NewFileSet(), path, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			for mu, calls := range lockCalls(f.Body) {
				if first, last := calls[0], calls[len(calls)-1]; first == last {
					found[f.Name.Name] = mu
				}
			}
		}
	}
	return found
}

// lockCalls returns each lock's calls in body, in order: true takes the lock, false releases it.
// Deferred calls come last. If body does not pass the lock on, the first and the last call differ.
func lockCalls(body *ast.BlockStmt) map[string][]bool {
	calls, deferred := map[string][]bool{}, map[string][]bool{}
	var inside func(into map[string][]bool) func(ast.Node) bool
	inside = func(into map[string][]bool) func(ast.Node) bool {
		return func(n ast.Node) bool {
			if d, ok := n.(*ast.DeferStmt); ok {
				ast.Inspect(d.Call, inside(deferred))
				return false
			}
			if mu, takes, ok := lockCall(n); ok {
				into[mu] = append(into[mu], takes)
			}
			return true
		}
	}
	ast.Inspect(body, inside(calls))
	for mu, last := range deferred {
		calls[mu] = append(calls[mu], last...)
	}
	return calls
}

// lockCall returns the lock that n takes or releases, and whether n takes it. ok is false if n is
// no such call.
func lockCall(n ast.Node) (mu string, takes, ok bool) {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) > 0 {
		return "", false, false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", false, false
	}
	switch sel.Sel.Name {
	case "Lock", "RLock":
		return types.ExprString(sel.X), true, true
	case "Unlock", "RUnlock":
		return types.ExprString(sel.X), false, true
	}
	return "", false, false
}

// TestLockPassersAreFound: each way of passing a lock on is found, and each way of keeping it is
// not.
func TestLockPassersAreFound(t *testing.T) {
	for _, c := range []struct {
		body   string
		passes bool
	}{
		{"mu.Lock(); mu.Unlock()", false},
		{"mu.Lock(); defer mu.Unlock()", false},
		{"mu.RLock(); if x { mu.RUnlock(); return }; mu.RUnlock()", false},
		{"mu.Unlock(); wait(); mu.Lock()", false},
		{"mu.Lock(); defer mu.Unlock(); mu.Unlock(); wait(); mu.Lock()", false},
		{"mu.Unlock(); defer func() { mu.Lock() }(); wait()", false},
		{"mu.Lock(); if x { return }", true},
		{"if x { mu.Unlock(); return }; mu.Unlock()", true},
		{"for x { mu.Unlock(); work(); mu.Lock() }; mu.Unlock()", true},
		{"mu.Lock(); other.Unlock()", true},
	} {
		got := len(lockPassers(t, "x.go", []byte("package p\n\nfunc f() { "+c.body+" }\n"))) > 0
		if got != c.passes {
			t.Errorf("%s: passes a lock on: %t, want %t", c.body, got, c.passes)
		}
	}
}
