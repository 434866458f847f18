package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/rbac"
)

// whoCan writes who may do something.
func whoCan(ctx context.Context, p rbac.Policy, a authz.Attributes, out io.Writer) error {
	subjects, err := rbac.New(p.Sources()).WhoCan(ctx, a)
	warn(out, err)
	fmt.Fprintf(out, "may %s:\n", described(a))
	for _, s := range subjects {
		name := s.Name
		if s.Namespace != "" {
			name = s.Namespace + "/" + name
		}
		fmt.Fprintf(out, "  %s %s\n", s.Kind, name)
	}
	return nil
}

// explain writes why a request is allowed, or why not.
func explain(ctx context.Context, p rbac.Policy, a authz.Attributes, out io.Writer) error {
	e, err := rbac.New(p.Sources()).Explain(ctx, a)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s, of %s, to %s: ", a.User.Name, strings.Join(a.User.Groups, ", "), described(a))
	if slices.Contains(a.User.Groups, authn.GroupMasters) {
		fmt.Fprintf(out, "allowed, as everything is to members of %s\n", authn.GroupMasters)
		return nil
	}
	fmt.Fprintln(out, e)
	if e.Decision.Verdict == authz.Allow {
		return nil
	}
	roles, err := enough(ctx, p, a)
	if err != nil {
		return err
	}
	if len(roles) > 0 {
		fmt.Fprintf(out, "these roles allow it, and are not bound to the user there: %s\n", strings.Join(roles, ", "))
	} else {
		fmt.Fprintln(out, "no role allows it")
	}
	return errDenied
}

// enough are the roles that allow a request to those to whom they are bound.
func enough(ctx context.Context, p rbac.Policy, a authz.Attributes) (names []string, err error) {
	try := func(name string, rules []rbacv1.PolicyRule) {
		d, failure := rbac.Rules(rules).Authorize(ctx, a)
		if failure != nil {
			err = failure
		} else if d.Verdict == authz.Allow {
			names = append(names, name)
		}
	}
	for _, r := range p.Roles {
		if r.Namespace == a.Namespace {
			try("Role "+r.Name, r.Rules)
		}
	}
	for _, r := range p.ClusterRoles {
		try("ClusterRole "+r.Name, r.Rules)
	}
	slices.Sort(names)
	return names, err
}

// rulesFor writes everything that a user may do.
func rulesFor(p rbac.Policy, id *authn.Identity, namespace string, out io.Writer) error {
	rules, err := rbac.New(p.Sources()).PolicyRules(id, namespace)
	warn(out, err)
	where := "in no namespace and in all"
	if namespace != "" {
		where = "in namespace " + namespace
	}
	fmt.Fprintf(out, "%s, of %s, may %s:\n", id.Name, strings.Join(id.Groups, ", "), where)
	if slices.Contains(id.Groups, authn.GroupMasters) {
		fmt.Fprintf(out, "  everything, as members of %s\n", authn.GroupMasters)
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	told := map[string]bool{}
	for _, r := range rules {
		for _, line := range lines(r) {
			if !told[line] {
				told[line] = true
				fmt.Fprintln(w, line)
			}
		}
	}
	if len(told) == 0 {
		fmt.Fprintln(w, "  nothing")
	}
	return w.Flush()
}

// lines are a rule, one line for its resources and one for its paths.
func lines(r rbacv1.PolicyRule) (all []string) {
	verbs := strings.Join(r.Verbs, ", ")
	var resources []string
	for _, group := range r.APIGroups {
		for _, resource := range r.Resources {
			resources = append(resources, shown(resource, group))
		}
	}
	if len(resources) > 0 {
		line := "  " + verbs + "\t" + strings.Join(resources, ", ")
		if len(r.ResourceNames) > 0 {
			line += ", named " + strings.Join(r.ResourceNames, ", ")
		}
		all = append(all, line)
	}
	if len(r.NonResourceURLs) > 0 {
		all = append(all, "  "+verbs+"\t"+strings.Join(r.NonResourceURLs, ", "))
	}
	return all
}

// shown is a resource as request reads it: pods/log, deployments.apps/scale.
func shown(resource, group string) string {
	if group == "" || resource == "*" && group == "*" {
		return resource
	}
	name, sub, divided := strings.Cut(resource, "/")
	if name += "." + group; divided {
		name += "/" + sub
	}
	return name
}

// described is a request in words.
func described(a authz.Attributes) string {
	if !a.ResourceRequest {
		return a.Verb + " " + a.Path
	}
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	text := a.Verb + " " + shown(resource, a.Group)
	if a.Name != "" {
		text += " " + a.Name
	}
	if a.Namespace != "" {
		text += " in namespace " + a.Namespace
	}
	return text
}

func warn(out io.Writer, err error) {
	if err != nil {
		fmt.Fprintf(out, "warning: %v\n", err)
	}
}
