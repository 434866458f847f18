// Package cel evaluates match conditions of package webhook, which are expressions in CEL over the variable request, the spec of a
// SubjectAccessReview, with upstream's library: a webhook is asked only about requests that all of its conditions match
// (https://kubernetes.io/docs/reference/access-authn-authz/authorization/#using-configuration-file-for-authorization).
//
// Everything is safe for concurrent use.
package cel

import (
	"context"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	library "k8s.io/apiserver/pkg/authorization/cel"

	"github.com/keelson-dev/keelson/authz/webhook"
)

// Compiler compiles match conditions. Make one with New.
type Compiler struct{ library func() library.Compiler }

// New returns a Compiler. What it needs is made when the first expression is compiled.
func New() *Compiler { return &Compiler{sync.OnceValue(library.NewDefaultCompiler)} }

// Check returns what is wrong with an expression, in upstream's words.
func (c *Compiler) Check(expression string) error {
	_, err := c.compile(expression)
	return err
}

func (c *Compiler) compile(expression string) (library.CompilationResult, error) {
	return c.library().CompileCELExpression(&library.SubjectAccessReviewMatchCondition{Expression: expression})
}

// Compile returns conditions, of which all must hold: for webhook.Options.Match. Without expressions it returns nil.
func (c *Compiler) Compile(expressions []string) (webhook.Conditions, error) {
	if len(expressions) == 0 {
		return nil, nil
	}
	matcher := &library.CELMatcher{}
	for _, text := range expressions {
		result, err := c.compile(text)
		if err != nil {
			return nil, err
		}
		matcher.CompilationResults = append(matcher.CompilationResults, result)
		matcher.UsesFieldSelector = matcher.UsesFieldSelector || result.UsesFieldSelector
		matcher.UsesLabelSelector = matcher.UsesLabelSelector || result.UsesLabelSelector
	}
	return func(ctx context.Context, spec *authorizationv1.SubjectAccessReviewSpec) (bool, error) {
		return matcher.Eval(ctx, &authorizationv1.SubjectAccessReview{Spec: *spec})
	}, nil
}
