package apiserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
)

// impersonationMode is one way to be allowed to act as another user. As of Kubernetes 1.37 the constrained modes of KEP-5284
// come first: they authorize both that the requestor acts as the user and that it does so for this verb. The original mode
// comes last: the verb "impersonate" alone decides.
type impersonationMode struct {
	name string // "legacy" is the original
	// verb is the one that the requestor must be allowed on the user.
	verb string
	// applies tells whether the mode is for such users and requestors.
	applies func(wanted, requestor *authn.Identity) bool
	// associated tells that a node agent acts as its own node, and that authorizers see this of it.
	associated bool
}

// nodeNameKey is the extra of a service account that names the node of its pod.
const nodeNameKey = "authentication.kubernetes.io/node-name"

func (m *impersonationMode) constrained() bool { return m.name != "legacy" }

// impersonationModes are the modes, in the order in which they are tried.
func impersonationModes() []impersonationMode {
	nameOnly := func(u *authn.Identity) bool { return u.UID == "" && len(u.Groups) == 0 && len(u.Extra) == 0 }
	return []impersonationMode{
		{name: "associated-node", verb: "impersonate:associated-node", associated: true, applies: func(wanted, requestor *authn.Identity) bool {
			node, isNode := nodeOf(wanted.Name)
			_, _, isAccount := accountOf(requestor.Name)
			runsOn := requestor.Extra[nodeNameKey]
			return nameOnly(wanted) && isNode && isAccount && len(runsOn) == 1 && runsOn[0] == node
		}},
		{name: "arbitrary-node", verb: "impersonate:arbitrary-node", applies: func(wanted, _ *authn.Identity) bool {
			_, isNode := nodeOf(wanted.Name)
			return nameOnly(wanted) && isNode
		}},
		{name: "serviceaccount", verb: "impersonate:serviceaccount", applies: func(wanted, _ *authn.Identity) bool {
			_, _, isAccount := accountOf(wanted.Name)
			return nameOnly(wanted) && isAccount
		}},
		{name: "user-info", verb: "impersonate:user-info", applies: func(wanted, _ *authn.Identity) bool {
			_, isNode := nodeOf(wanted.Name)
			_, _, isAccount := accountOf(wanted.Name)
			return !isNode && !isAccount
		}},
		{name: "legacy", verb: "impersonate", applies: func(_, _ *authn.Identity) bool { return true }},
	}
}

// impersonationFilter lets a request act as another user.
type impersonationFilter struct {
	authorizer authz.Authorizer
	log        *slog.Logger
	modes      []impersonationMode
	// last is the mode that last worked for each user. It is tried first, since it will most likely work again.
	mu   sync.Mutex
	last map[string]int
}

// maxRememberedModes bounds impersonationFilter.last.
const maxRememberedModes = 1024

// order returns the modes in the order in which they are tried for a user.
func (f *impersonationFilter) order(user string) []int {
	f.mu.Lock()
	at, known := f.last[user]
	f.mu.Unlock()
	var order []int
	if known {
		order = append(order, at)
	}
	for n := range f.modes {
		if !known || n != at {
			order = append(order, n)
		}
	}
	return order
}

func (f *impersonationFilter) remember(user string, at int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last == nil || len(f.last) >= maxRememberedModes {
		f.last = map[string]int{}
	}
	f.last[user] = at
}

// impersonate makes the request act as the user that its headers name, if it may, and takes those headers out. It returns
// the context with that user, or ctx if there is none, or false if it has answered with an error.
func (f *impersonationFilter) impersonate(ctx context.Context, x *exchange, r *http.Request) (context.Context, bool) {
	as, err := f.resolve(ctx, x, r)
	switch {
	case err != nil:
		x.reject(r, err)
		return nil, false
	case as == nil:
		return ctx, true
	}
	x.user = as
	return authn.NewContext(ctx, as), true
}

// resolve returns whom the request acts as, nil if as nobody else.
func (f *impersonationFilter) resolve(ctx context.Context, x *exchange, r *http.Request) (*authn.Identity, error) {
	wanted, err := impersonatedUser(r.Header)
	if wanted == nil {
		return nil, err
	}
	began := x.observed.now()
	requestor := x.user
	asked := x.attributes(r)
	var first error
	for _, at := range f.order(requestor.Name) {
		m := &f.modes[at]
		as, err := f.try(ctx, m, requestor, wanted, &asked)
		switch {
		case err != nil && first == nil:
			first = err
		case as != nil:
			x.observed.impersonated(m.name, nil, began)
			f.remember(requestor.Name, at)
			constraint := ""
			if m.constrained() {
				constraint = m.verb
			}
			if x.audit != nil {
				x.audit.record.Impersonated(as, constraint)
			}
			f.log.Debug("impersonating", "user", requestor.Name, "as", as.Name, "groups", as.Groups, "audit-id", x.shortID())
			return as, nil
		}
	}
	x.observed.impersonated("", first, began)
	return nil, first
}

// impersonatedUser reads whom a request wants to act as, and deletes the headers; nil is nobody.
func impersonatedUser(h http.Header) (*authn.Identity, error) {
	prefix := authenticationv1.ImpersonateUserExtraHeaderPrefix
	asked := false
	var extra []string
	for name := range h {
		asked = asked || strings.HasPrefix(name, "Impersonate-")
		if strings.HasPrefix(name, prefix) {
			extra = append(extra, name)
		}
	}
	if !asked {
		return nil, nil
	}
	u := &authn.Identity{}
	u.Name = h.Get(authenticationv1.ImpersonateUserHeader)
	u.UID = h.Get(authenticationv1.ImpersonateUIDHeader)
	u.Groups = h[authenticationv1.ImpersonateGroupHeader]
	for _, name := range extra {
		if len(h[name]) == 0 {
			continue
		}
		key := strings.ToLower(name[len(prefix):])
		if plain, err := url.PathUnescape(key); err == nil {
			key = plain
		}
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		u.Extra[key] = append(u.Extra[key], h[name]...)
	}
	if u.Name == "" {
		if u.UID != "" || len(u.Groups) > 0 || len(extra) > 0 {
			return nil, apierrors.NewBadRequest(fmt.Sprintf(
				"requested &user.DefaultInfo{Name:%#v, UID:%#v, Groups:%#v, Extra:%#v} without impersonating a user name", u.Name, u.UID, u.Groups, u.Extra))
		}
		return nil, nil
	}
	h.Del(authenticationv1.ImpersonateUserHeader)
	h.Del(authenticationv1.ImpersonateUIDHeader)
	h.Del(authenticationv1.ImpersonateGroupHeader)
	for _, name := range extra {
		h.Del(name)
	}
	return u, nil
}

// try tries one mode: it returns whom the request acts as, nil if the mode is not for such users, or why it is refused.
func (f *impersonationFilter) try(ctx context.Context, m *impersonationMode, requestor, wanted *authn.Identity, asked *authz.Attributes) (*authn.Identity, error) {
	if !m.applies(wanted, requestor) {
		return nil, nil
	}
	p := impersonationCheck{authorizer: f.authorizer, mode: m, requestor: requestor}
	if m.associated {
		keys := make([]string, 0, len(p.requestor.Extra))
		for key := range p.requestor.Extra {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		seen := *p.requestor
		seen.Extra = map[string][]string{"authentication.kubernetes.io/associated-node-keys": keys}
		p.requestor = &seen
	}
	if m.constrained() {
		on := *asked
		on.User, on.Verb = p.requestor, "impersonate-on:"+m.name+":"+asked.Verb
		if err := p.authorize(ctx, on); err != nil {
			return nil, err
		}
	}
	as := *wanted
	if err := p.name(ctx, &as, wanted); err != nil {
		return nil, err
	}
	if wanted.UID != "" {
		if err := p.authorize(ctx, p.attributes(authenticationv1.GroupName, "uids", wanted.UID)); err != nil {
			return nil, err
		}
	}
	if err := p.groups(ctx, wanted.Groups); err != nil {
		return nil, err
	}
	if err := p.extra(ctx, wanted.Extra); err != nil {
		return nil, err
	}
	switch {
	case as.Name == authn.Anonymous:
		as.Groups = withGroup(as.Groups, authn.GroupUnauthenticated)
	case !slices.Contains(as.Groups, authn.GroupUnauthenticated):
		as.Groups = withGroup(as.Groups, authn.GroupAuthenticated)
	}
	return &as, nil
}

// withGroup returns the groups and one more.
func withGroup(groups []string, group string) []string {
	if slices.Contains(groups, group) {
		return groups
	}
	return append(slices.Clone(groups), group)
}

// impersonationCheck asks the authorizer whether somebody may act as another user, in one mode.
type impersonationCheck struct {
	authorizer authz.Authorizer
	mode       *impersonationMode
	requestor  *authn.Identity
}

func (p *impersonationCheck) attributes(group, resource, name string) authz.Attributes {
	return authz.Attributes{
		User: p.requestor, Verb: p.mode.verb, Group: group, Version: "v1", Resource: resource, Name: name, ResourceRequest: true,
	}
}

// group is the API group of the resources users and groups.
func (p *impersonationCheck) group() string {
	if p.mode.constrained() {
		return authenticationv1.GroupName
	}
	return ""
}

func (p *impersonationCheck) authorize(ctx context.Context, a authz.Attributes) error {
	decision, err := p.authorizer.Authorize(ctx, a)
	if decision.Verdict == authz.Allow {
		return nil
	}
	reason := decision.Why(a)
	switch {
	case err != nil && reason != "":
		reason = err.Error() + ": " + reason
	case err != nil:
		reason = err.Error()
	}
	return forbidden(a, reason)
}

// name authorizes the user name, and sets the groups that come with it.
func (p *impersonationCheck) name(ctx context.Context, as, wanted *authn.Identity) error {
	a := p.attributes(p.group(), "users", wanted.Name)
	if node, ok := nodeOf(wanted.Name); ok && p.mode.constrained() {
		a.Resource, a.Name = "nodes", node
		if p.mode.associated {
			a.Name = "*"
		}
		as.Groups = []string{authn.GroupNodes}
	}
	if namespace, name, ok := accountOf(wanted.Name); ok {
		a.Resource, a.Namespace, a.Name = "serviceaccounts", namespace, name
		if len(wanted.Groups) == 0 {
			as.Groups = []string{authn.GroupServiceAccounts, authn.GroupServiceAccounts + ":" + namespace}
		}
	}
	return p.authorize(ctx, a)
}

// wildcardThreshold is the number of values from which on the constrained modes first ask for "*", all at once.
const wildcardThreshold = 4

func (p *impersonationCheck) groups(ctx context.Context, groups []string) error {
	a := p.attributes(p.group(), "groups", "")
	if p.mode.constrained() {
		switch {
		case slices.Contains(groups, ""):
			return forbidden(a, "impersonating the empty string group is not allowed")
		case slices.Contains(groups, authn.GroupMasters):
			a.Name = authn.GroupMasters
			return forbidden(a, "impersonating the system:masters group is not allowed")
		case len(groups) >= wildcardThreshold:
			a.Name = "*"
			if p.authorize(ctx, a) == nil {
				return nil
			}
		}
	}
	for _, group := range groups {
		a.Name = group
		if err := p.authorize(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

func (p *impersonationCheck) extra(ctx context.Context, extra map[string][]string) error {
	a := p.attributes(authenticationv1.GroupName, "userextras", "")
	if p.mode.constrained() {
		if err := checkExtra(extra); err != nil {
			return forbidden(a, err.Error())
		}
		values := 0
		for _, v := range extra {
			values += len(v)
		}
		if len(extra) >= wildcardThreshold || values >= wildcardThreshold {
			a.Subresource, a.Name = "*", "*"
			if p.authorize(ctx, a) == nil {
				return nil
			}
		}
	}
	for key, values := range extra {
		a.Subresource = key
		for _, value := range values {
			a.Name = value
			if err := p.authorize(ctx, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkExtra checks that the constrained modes take the extra values.
func checkExtra(extra map[string][]string) error {
	for key, values := range extra {
		switch err := utilvalidation.IsDomainPrefixedPath(field.NewPath("extra", "key"), key).ToAggregate(); {
		case key == "":
			return errors.New("impersonating the empty string key in extra is not allowed")
		case err != nil:
			return fmt.Errorf("impersonating an invalid key in extra is not allowed: %w", err)
		case key != strings.ToLower(key):
			return fmt.Errorf("impersonating a non-lowercase key in extra is not allowed: %q", key)
		case len(values) == 0:
			return errors.New("impersonating empty values in extra is not allowed")
		case slices.Contains(values, ""):
			return errors.New("impersonating the empty string value in extra is not allowed")
		}
	}
	return nil
}
