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

// passesLock lists functions that end holding a lock from elsewhere, or releasing one.
var passesLock = map[string]string{
	"rnic/provider_qp.go Return":            "the end of Borrow, and a lock by another name",
	"transport/internal/ktls/conn.go alert": "takes the lock by TryLock",
	"rnic/rconn/send.go tryUpdate":          "takes the lock by TryLock",
	"rnic/iwarp/receiver.go release":        "aim takes the lock of the memory that a read places in",
}

// TestLocksEndWhereTheyBegin: no function is entered with a lock held and left without it, or the
// other way round. A function may release a lock for a while and hold it again at its end.
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

// lockPassers returns the functions of a file that pass a lock on, with its name.
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

// lockCalls returns for each lock whether its calls in body, in their order, take it; deferred ones
// come last. A lock is taken and given back, or the other way round: the first and the last call
// differ.
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

// lockCall reports whether n is a call that takes a lock, or gives it back, and which lock.
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
