package abac

import (
	"slices"
	"strings"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
)

// Policy is what a line allows: to whom, and which requests. "*" stands for everything, but for users and groups it stands for
// everybody who has authenticated.
type Policy struct {
	User  string // the user's name, and
	Group string // a group of the user: at least one of both is set
	// Readonly allows get, list and watch only.
	Readonly bool
	// A request about a resource must match all three; an empty value matches an empty one.
	APIGroup  string
	Resource  string
	Namespace string
	// NonResourcePath is the path of other requests; it may end with an asterisk.
	NonResourcePath string
}

// everybody replaces an asterisk as user or group by the group of all who have authenticated.
func everybody(p Policy) Policy {
	if p.User == "*" || p.Group == "*" {
		p.User, p.Group = "", authn.GroupAuthenticated
	}
	return p
}

// unversioned returns the meaning of a line without a version: what it leaves out, it does not limit.
func unversioned(p Policy) Policy {
	p = everybody(p)
	if p.User == "" && p.Group == "" {
		p.Group = authn.GroupAuthenticated
	}
	p.APIGroup, p.NonResourcePath = "*", ""
	if p.Namespace == "" && p.Resource == "" {
		p.NonResourcePath = "*"
	}
	if p.Namespace == "" {
		p.Namespace = "*"
	}
	if p.Resource == "" {
		p.Resource = "*"
	}
	return p
}

// allows reports whether the policy allows a request.
func (p *Policy) allows(a *authz.Attributes) bool {
	if !p.isFor(a.User) || p.Readonly && !reads(a.Verb) {
		return false
	}
	if a.ResourceRequest {
		return among(p.Namespace, a.Namespace) && among(p.Resource, a.Resource) && among(p.APIGroup, a.Group)
	}
	prefix, open := strings.CutSuffix(p.NonResourcePath, "*")
	return p.NonResourcePath != "" && p.NonResourcePath == a.Path || open && strings.HasPrefix(a.Path, strings.TrimRight(prefix, "*"))
}

func reads(verb string) bool { return verb == "get" || verb == "list" || verb == "watch" }

func among(allowed, asked string) bool { return allowed == "*" || allowed == asked }

// isFor reports whether the policy is about a user. One that names neither user nor group is about nobody.
func (p *Policy) isFor(user *authn.Identity) bool {
	if p.User == "" && p.Group == "" {
		return false
	}
	return (p.User == "" || p.User == user.Name) && (p.Group == "" || slices.Contains(user.Groups, p.Group))
}
