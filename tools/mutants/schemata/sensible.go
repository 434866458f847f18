package schemata

import (
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"strings"
)

// The following is not changed, because no test should have to notice: texts of errors, logging, metrics, panics, type
// assertions, releasing resources at the end of a function, locks (which the race detector checks), sizes of buffers
// and bases of numbers.

// generated reports whether a file is not written by hand.
func generated(file *ast.File, name string) bool {
	return ast.IsGenerated(file) || strings.HasPrefix(path.Base(name), "zz_")
}

// text reports whether a function only makes text for people.
func text(d *ast.FuncDecl) bool {
	switch d.Name.Name {
	case "String", "GoString", "Error", "LogValue", "MarshalLog":
		return true
	}
	return false
}

// senseless reports whether neither a node nor anything below it should be changed.
func (f *finder) senseless(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		return f.speaks(n)
	case *ast.ExprStmt:
		call, ok := n.X.(*ast.CallExpr)
		return ok && (f.speaks(call) || f.housekeeping(call))
	case *ast.DeferStmt:
		if f.housekeeping(n.Call) {
			return true
		}
		switch called(n.Call) {
		case "Close", "Done", "Stop", "Wait", "cancel", "stop", "release", "Remove", "RemoveAll":
			return true
		}
	case *ast.GenDecl:
		return n.Tok == token.CONST
	case *ast.IfStmt:
		return n.Else == nil && f.asserts(n.Body.List)
	case *ast.BinaryExpr:
		return n.Op == token.SHL || n.Op == token.SHR
	}
	return false
}

// speaks reports whether a call makes text, logs, counts for metrics, panics or allocates.
func (f *finder) speaks(call *ast.CallExpr) bool {
	switch name := called(call); {
	case f.builtin(call.Fun, "panic"), f.builtin(call.Fun, "make"), f.builtin(call.Fun, "print"), f.builtin(call.Fun, "println"):
		return true
	default:
		switch pkg := f.packageOf(call.Fun); pkg {
		case "log", "log/slog", "runtime", "runtime/debug", "strconv", "math/rand", "math/rand/v2":
			return true
		case "fmt":
			return !strings.HasPrefix(name, "Fprint")
		case "errors":
			return name == "New"
		case "os":
			return name == "Exit"
		default:
			return strings.HasPrefix(pkg, "github.com/prometheus/") || strings.HasPrefix(pkg, "github.com/go-logr/")
		}
	}
}

// housekeeping reports whether a call is about a lock or a timer, or a hint for the garbage collector.
func (f *finder) housekeeping(call *ast.CallExpr) bool {
	switch pkg := f.packageOf(call.Fun); pkg {
	case "sync":
		return called(call) != "Go"
	case "time":
		return called(call) == "Stop"
	}
	return false
}

// called returns the name of a called function or method.
func called(call *ast.CallExpr) string {
	switch fun := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		return fun.Name
	case *ast.SelectorExpr:
		return fun.Sel.Name
	}
	return ""
}

func (f *finder) builtin(fun ast.Expr, name string) bool {
	id, ok := ast.Unparen(fun).(*ast.Ident)
	if !ok || id.Name != name {
		return false
	}
	_, ok = f.info.Uses[id].(*types.Builtin)
	return ok
}

// packageOf returns the package that declares a called function or method.
func (f *finder) packageOf(fun ast.Expr) string {
	var id *ast.Ident
	switch fun := ast.Unparen(fun).(type) {
	case *ast.Ident:
		id = fun
	case *ast.SelectorExpr:
		id = fun.Sel
	case *ast.IndexExpr:
		return f.packageOf(fun.X)
	default:
		return ""
	}
	if o, ok := f.info.Uses[id].(*types.Func); ok && o.Pkg() != nil {
		return o.Pkg().Path()
	}
	return ""
}

// becomesValue reports whether a constant is assigned, passed, returned or compared, rather than being part of a type
// or label, or the key of a composite literal.
func (f *finder) becomesValue(e ast.Expr, stack []ast.Node) bool {
	if len(stack) == 0 {
		return false
	}
	switch p := stack[len(stack)-1].(type) {
	case *ast.ReturnStmt:
		// With an error, or a false that means that there is nothing, no other value matters.
		last := p.Results[len(p.Results)-1]
		return !f.returnsError(p, stack[:len(stack)-1]) && (e == last || !f.isFalse(last))
	case *ast.ValueSpec, *ast.IndexExpr, *ast.SliceExpr, *ast.SendStmt:
		return true
	case *ast.AssignStmt:
		return p.Tok == token.DEFINE || !f.isBool(e) // dropping it would be the same
	case *ast.CallExpr:
		return p.Fun != e && !f.info.Types[p.Fun].IsType()
	case *ast.KeyValueExpr:
		return p.Value == e
	case *ast.CompositeLit:
		return p.Type != e
	case *ast.BinaryExpr:
		return isDuration(f.info.Types[e].Type)
	}
	return false
}

func (f *finder) isFalse(e ast.Expr) bool {
	return f.isBool(e) && f.info.Types[e].Value != nil && f.info.Types[e].Value.String() == "false"
}

func (f *finder) isBool(e ast.Expr) bool {
	b, ok := f.info.Types[e].Type.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsBoolean != 0
}

// asserts reports whether statements only report a value of an impossible type.
func (f *finder) asserts(list []ast.Stmt) bool {
	if len(list) != 1 {
		return false
	}
	r, ok := list[0].(*ast.ReturnStmt)
	if !ok || len(r.Results) == 0 {
		return false
	}
	call, ok := r.Results[len(r.Results)-1].(*ast.CallExpr)
	return ok && f.packageOf(call.Fun) == "fmt" && called(call) == "Errorf" && strings.Contains(f.source(call), "%T")
}

// isCount reports whether a constant is written as a decimal number here, for which an off-by-one is a plausible
// mistake.
func (f *finder) isCount(e ast.Expr) bool {
	if u, ok := e.(*ast.UnaryExpr); ok && u.Op == token.SUB {
		e = u.X
	}
	lit, ok := e.(*ast.BasicLit)
	return ok && lit.Kind == token.INT && (lit.Value == "0" || !strings.HasPrefix(lit.Value, "0"))
}

func onlyPanics(b *ast.BlockStmt) bool { return panics(b.List) }

func panics(list []ast.Stmt) bool {
	if len(list) != 1 {
		return false
	}
	s, ok := list[0].(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := s.X.(*ast.CallExpr)
	return ok && called(call) == "panic"
}

// inList reports whether a statement is one of a list and can be replaced by another.
func inList(s ast.Stmt, stack []ast.Node) bool {
	switch p := stack[len(stack)-1].(type) {
	case *ast.BlockStmt, *ast.CaseClause:
		return true
	case *ast.CommClause:
		return p.Comm != s
	}
	return false
}

// atEnd reports whether a statement is the last one of the innermost function or loop around it: leaving it early
// changes nothing, or the compiler requires it.
func (f *finder) atEnd(n ast.Node, stack []ast.Node) bool {
	branch, isBranch := n.(*ast.BranchStmt)
	for i := len(stack) - 1; i >= 0; i-- {
		var list []ast.Stmt
		switch p := stack[i].(type) {
		case *ast.BlockStmt:
			list = p.List
		case *ast.CaseClause:
			list = p.Body
		case *ast.CommClause:
			list = p.Body
		case *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
			if isBranch && branch.Tok == token.BREAK && branch.Label == nil {
				return true
			}
		case *ast.ForStmt, *ast.RangeStmt:
			return isBranch && branch.Tok == token.CONTINUE && branch.Label == nil
		case *ast.FuncLit, *ast.FuncDecl:
			return true
		}
		if _, clause := n.(*ast.CaseClause); !clause && len(list) > 0 {
			if _, comm := n.(*ast.CommClause); !comm && ast.Node(list[len(list)-1]) != n {
				return false
			}
		}
		n = stack[i]
	}
	return true
}
