package schemata

import (
	"go/ast"
	"go/token"
	"go/types"
)

// The operators, by the word that a mutant's Change begins with:
//
//	negate       a condition of if, for or case, or a comparison or negation elsewhere
//	operand      of && or || is removed
//	boundary     < for <=, > for >=, and vice versa; == and != are negated
//	nil error    a function returns nil instead of its error
//	drop         a call without results, an assignment, a send, defer, go, continue, break or early return
//	empty case   a case of a switch with a tag does nothing
//	arithmetic   + for - and vice versa, of integers
//	off by one   an integer literal is incremented
//	bool         true for false and vice versa
//	ten times    a duration
//
// The == of an operand is not negated: a test that notices that the operand is missing notices that, too.

// visit makes the mutants of one node, and reports whether to descend.
func (f *finder) visit(n ast.Node, stack []ast.Node) bool {
	if f.senseless(n) {
		return false
	}
	if e, ok := n.(ast.Expr); ok {
		tv, known := f.info.Types[e]
		if known && tv.IsType() {
			return false
		}
		if known && tv.Value != nil {
			f.constant(e, tv, stack)
			return false
		}
	}
	switch n := n.(type) {
	case *ast.IfStmt:
		if !onlyPanics(n.Body) {
			f.condition(n.Cond)
		}
	case *ast.ForStmt:
		f.condition(n.Cond)
	case *ast.CaseClause:
		f.clause(n, stack)
	case *ast.BinaryExpr:
		f.binary(n, stack)
	case *ast.UnaryExpr:
		if n.Op == token.NOT && !f.isCondition(n, stack) && f.plainBool(n) {
			f.wrap(f.add(n, "negate", f.source(n)), n, "((", ") != mutants_on(%d))")
		}
	case *ast.ReturnStmt:
		if !f.nilError(n, stack) {
			f.early(n, stack)
		}
	case *ast.BranchStmt:
		if n.Tok == token.CONTINUE || n.Tok == token.BREAK {
			f.early(n, stack)
		}
	case *ast.ExprStmt, *ast.AssignStmt, *ast.IncDecStmt, *ast.SendStmt, *ast.DeferStmt, *ast.GoStmt:
		f.drop(n.(ast.Stmt), stack)
	}
	return true
}

// condition negates a condition.
func (f *finder) condition(cond ast.Expr) {
	if cond == nil || !f.plainBool(cond) {
		return
	}
	f.wrap(f.add(cond, "negate", f.source(cond)), cond, "((", ") != mutants_on(%d))")
}

// isCondition reports whether condition, binary or an outer operand has already changed the expression.
func (f *finder) isCondition(e ast.Expr, stack []ast.Node) bool {
	for i := len(stack) - 1; i >= 0; i-- {
		switch p := stack[i].(type) {
		case *ast.ParenExpr:
			e = p
			continue
		case *ast.IfStmt:
			return p.Cond == e
		case *ast.ForStmt:
			return p.Cond == e
		case *ast.CaseClause:
			return true
		case *ast.UnaryExpr:
			return p.Op == token.NOT
		case *ast.BinaryExpr:
			return p.Op == token.LAND || p.Op == token.LOR
		}
		return false
	}
	return false
}

// plainBool reports whether an expression is of type bool and not constant.
func (f *finder) plainBool(e ast.Expr) bool {
	tv := f.info.Types[e]
	b, ok := types.Unalias(tv.Type).(*types.Basic)
	return ok && b.Info()&types.IsBoolean != 0 && tv.Value == nil
}

// clause handles a case: it is a condition if there is no tag, otherwise a body that may be dropped.
func (f *finder) clause(c *ast.CaseClause, stack []ast.Node) {
	body := stack[len(stack)-1]
	if s, ok := stack[len(stack)-2].(*ast.SwitchStmt); ok && s.Tag == nil {
		for _, cond := range c.List {
			f.condition(cond)
		}
		return
	}
	if len(c.Body) == 0 || panics(c.Body) || f.atEnd(body, stack[:len(stack)-1]) && results(f.signature(stack)) > 0 {
		return
	}
	what := "default"
	if len(c.List) > 0 {
		what = "case"
		for i, e := range c.List {
			if i > 0 {
				what += ","
			}
			what += " " + f.source(e)
		}
	}
	f.insert(f.add(c, "empty case", what), c.Colon+1, " if mutants_on(%d) { break }; ")
}

// binary changes an operator, and drops operands of && and ||.
func (f *finder) binary(b *ast.BinaryExpr, stack []ast.Node) {
	boundaries := map[token.Token]string{token.LSS: "lt", token.LEQ: "le", token.GTR: "gt", token.GEQ: "ge"}
	switch b.Op {
	case token.LAND, token.LOR:
		if !f.plainBool(b) {
			return
		}
		neutral := "(mutants_on(%d) || ("
		if b.Op == token.LOR {
			neutral = "(!mutants_on(%d) && ("
		}
		for _, operand := range []ast.Expr{b.X, b.Y} {
			if inner, ok := ast.Unparen(operand).(*ast.BinaryExpr); ok && inner.Op == b.Op || f.info.Types[operand].Value != nil {
				continue // has its own operands to drop
			}
			f.wrap(f.add(operand, "operand", f.source(operand)+" of "+f.source(b)), operand, neutral, "))")
		}
	case token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ:
		if !f.isCondition(b, stack) && f.plainBool(b) {
			f.wrap(f.add(b, "negate", f.source(b)), b, "((", ") != mutants_on(%d))")
		}
		if f.isNumber(b.X) && boundaries[b.Op] != "" {
			f.call(b, "boundary", boundaries[b.Op])
		}
	case token.ADD:
		if f.isInteger(b) {
			f.call(b, "arithmetic", "add")
		}
	case token.SUB:
		if f.isInteger(b) {
			f.call(b, "arithmetic", "sub")
		}
	}
}

// call replaces an operator by a call of a function of the runtime.
func (f *finder) call(b *ast.BinaryExpr, operator, function string) {
	id := f.add(b, operator, f.source(b))
	// The type is not always inferred for constants next to variables.
	instance := ""
	if t, ok := types.Unalias(types.Default(f.info.Types[b.X].Type)).(*types.Basic); ok {
		instance = "[" + t.Name() + "]"
	}
	f.wrap(id, b, "mutants_"+function+instance+"(%d, ", ")")
	f.comma(id, b)
}

func (f *finder) isNumber(e ast.Expr) bool {
	b, ok := f.info.Types[e].Type.Underlying().(*types.Basic)
	return ok && b.Info()&(types.IsInteger|types.IsFloat) != 0
}

func (f *finder) isInteger(e ast.Expr) bool {
	b, ok := f.info.Types[e].Type.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsInteger != 0
}

// constant changes true, false, integers and durations that become values of variables.
func (f *finder) constant(e ast.Expr, tv types.TypeAndValue, stack []ast.Node) {
	basic, _ := types.Unalias(tv.Type).(*types.Basic)
	inner := ast.Unparen(e)
	switch {
	case !f.becomesValue(e, stack):
	case basic != nil && basic.Info()&types.IsBoolean != 0:
		if tv.Value.String() == "true" {
			f.wrap(f.add(e, "bool", f.within(e, stack)), e, "(!mutants_on(%d) && ", ")")
		} else {
			f.wrap(f.add(e, "bool", f.within(e, stack)), e, "(mutants_on(%d) || ", ")")
		}
	case isDuration(tv.Type) && tv.Value.String() != "0" && f.typed(inner):
		f.wrap(f.add(e, "ten times", f.within(e, stack)), e, "mutants_times(%d, ", ")")
	case basic != nil && basic.Info()&types.IsInteger != 0 && f.isCount(inner):
		f.wrap(f.add(e, "off by one", f.within(e, stack)), e, "mutants_more["+types.Default(basic).(*types.Basic).Name()+"](%d, ", ")")
	}
}

// typed reports whether a constant's type is its own, rather than taken from its context.
func (f *finder) typed(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return false
	case *ast.Ident:
		b, ok := f.info.Uses[e].Type().(*types.Basic)
		return !ok || b.Info()&types.IsUntyped == 0
	}
	return true
}

func isDuration(t types.Type) bool { return types.Unalias(t).String() == "time.Duration" }

// within returns a constant's text and that of the expression around it.
func (f *finder) within(e ast.Expr, stack []ast.Node) string {
	if len(stack) == 0 {
		return f.source(e)
	}
	return f.source(e) + " in " + f.source(stack[len(stack)-1])
}

// signature returns that of the innermost function around a node.
func (f *finder) signature(stack []ast.Node) *types.Signature {
	for i := len(stack) - 1; i >= 0; i-- {
		switch n := stack[i].(type) {
		case *ast.FuncLit:
			s, _ := f.info.Types[n].Type.(*types.Signature)
			return s
		case *ast.FuncDecl:
			s, _ := f.info.Defs[n.Name].Type().(*types.Signature)
			return s
		}
	}
	return nil
}

func results(s *types.Signature) int {
	if s == nil {
		return 0
	}
	return s.Results().Len()
}

// returnsError reports whether the last of a statement's results may be an error.
func (f *finder) returnsError(r *ast.ReturnStmt, stack []ast.Node) bool {
	s := f.signature(stack)
	n := results(s)
	if n == 0 || len(r.Results) != n || s.Results().At(n-1).Type().String() != "error" {
		return false
	}
	return !f.info.Types[r.Results[n-1]].IsNil()
}

// nilError returns nil instead of an error.
func (f *finder) nilError(r *ast.ReturnStmt, stack []ast.Node) bool {
	if !f.returnsError(r, stack) {
		return false
	}
	last := r.Results[len(r.Results)-1]
	f.wrap(f.add(last, "nil error", f.source(r)), last, "mutants_err(%d, ", ")")
	return true
}

// early continues where the code would return, break or continue.
func (f *finder) early(s ast.Stmt, stack []ast.Node) {
	if !inList(s, stack) || f.atEnd(s, stack) {
		return
	}
	f.wrap(f.add(s, "drop", f.source(s)), s, "if !mutants_on(%d) { ", " }")
}

// drop drops a statement.
func (f *finder) drop(s ast.Stmt, stack []ast.Node) {
	if a, ok := s.(*ast.AssignStmt); ok && (a.Tok == token.DEFINE || allBlank(a.Lhs)) {
		return
	}
	if !inList(s, stack) {
		return
	}
	f.wrap(f.add(s, "drop", f.source(s)), s, "if !mutants_on(%d) { ", " }")
}

func allBlank(lhs []ast.Expr) bool {
	for _, e := range lhs {
		if id, ok := e.(*ast.Ident); !ok || id.Name != "_" {
			return false
		}
	}
	return true
}
