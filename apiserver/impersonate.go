package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
)

// Impersonation, as of Kubernetes 1.37: the constrained modes of KEP-5284 first, where acting as
// somebody and doing so for this verb are both authorized, and the original one last, where
// "impersonate" alone decides.

// mode is one way to be allowed to act as somebody else.
type mode struct {
	name string // legacy: the original
	// verb is what must be allowed on who is acted as.
	verb string
	// fits tells whether the mode is one for this user and requestor.
	fits func(wanted, by *authn.Identity) bool
	// associated replaces what authorizers see, of a node agent that acts as its own node.
	associated bool
}

func (m *mode) constrained() bool { return m.name != "legacy" }

// nodeNameKey is where a service account's token says on which node its pod runs.
const nodeNameKey = "authentication.kubernetes.io/node-name"

// modes in the order in which they are tried.
func modes() []mode {
	alone := func(u *authn.Identity) bool { return u.UID == "" && len(u.Groups) == 0 && len(u.Extra) == 0 }
	return []mode{
		{name: "associated-node", verb: "impersonate:associated-node", associated: true, fits: func(wanted, by *authn.Identity) bool {
			node, isNode := nodeOf(wanted.Name)
			_, _, isAccount := accountOf(by.Name)
			runsOn := by.Extra[nodeNameKey]
			return alone(wanted) && isNode && isAccount && len(runsOn) == 1 && runsOn[0] == node
		}},
		{name: "arbitrary-node", verb: "impersonate:arbitrary-node", fits: func(wanted, _ *authn.Identity) bool {
			_, isNode := nodeOf(wanted.Name)
			return alone(wanted) && isNode
		}},
		{name: "serviceaccount", verb: "impersonate:serviceaccount", fits: func(wanted, _ *authn.Identity) bool {
			_, _, isAccount := accountOf(wanted.Name)
			return alone(wanted) && isAccount
		}},
		{name: "user-info", verb: "impersonate:user-info", fits: func(wanted, _ *authn.Identity) bool {
			_, isNode := nodeOf(wanted.Name)
			_, _, isAccount := accountOf(wanted.Name)
			return !isNode && !isAccount
		}},
		{name: "legacy", verb: "impersonate", fits: func(_, _ *authn.Identity) bool { return true }},
	}
}

// nodeOf is the node that a user name stands for.
func nodeOf(user string) (string, bool) {
	name, ok := strings.CutPrefix(user, "system:node:")
	return name, ok && len(apivalidation.NameIsDNSSubdomain(name, false)) == 0
}

// accountOf is the service account that a user name stands for.
func accountOf(user string) (namespace, name string, ok bool) {
	rest, ok := strings.CutPrefix(user, "system:serviceaccount:")
	if !ok {
		return "", "", false
	}
	namespace, name, ok = strings.Cut(rest, ":")
	return namespace, name, ok && len(apivalidation.ValidateNamespaceName(namespace, false)) == 0 &&
		len(apivalidation.ValidateServiceAccountName(name, false)) == 0
}

// impersonators knows the modes, and which one last worked for whom: it is tried first.
type impersonators struct {
	modes []mode
	mu    sync.Mutex
	last  map[string]int
}

// maxRemembered bounds impersonators.last.
const maxRemembered = 1024

// order is in which the modes are tried for a user.
func (i *impersonators) order(user string) []int {
	i.mu.Lock()
	at, known := i.last[user]
	i.mu.Unlock()
	var order []int
	if known {
		order = append(order, at)
	}
	for n := range i.modes {
		if !known || n != at {
			order = append(order, n)
		}
	}
	return order
}

func (i *impersonators) remember(user string, at int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.last == nil || len(i.last) >= maxRemembered {
		i.last = map[string]int{}
	}
	i.last[user] = at
}

// impersonate returns whom the request acts as, if somebody else and allowed, and takes the
// headers that say so out.
func (x *exchange) impersonate(ctx context.Context, r *http.Request) (*authn.Identity, error) {
	wanted, err := wantedUser(r.Header)
	if wanted == nil {
		return nil, err
	}
	began := x.now()
	i := &x.server.impersonators
	requestor := x.user.Name
	asked := x.attributes(r)
	var first error
	for _, at := range i.order(requestor) {
		m := &i.modes[at]
		as, err := x.act(ctx, m, wanted, &asked)
		switch {
		case err != nil && first == nil:
			first = err
		case as != nil:
			x.sawImpersonation(m.name, nil, began)
			i.remember(requestor, at)
			constraint := ""
			if m.constrained() {
				constraint = m.verb
			}
			if x.audit != nil {
				x.audit.record.Impersonated(as, constraint)
			}
			x.server.log.Debug("impersonating", "user", requestor, "as", as.Name, "groups", as.Groups, "audit-id", x.shortID())
			return as, nil
		}
	}
	x.sawImpersonation("", first, began)
	return nil, first
}

// wantedUser reads whom a request wants to act as, and deletes the headers; nil is nobody.
func wantedUser(h http.Header) (*authn.Identity, error) {
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

// act tries one mode for what is asked: it returns who the request acts as, nil if the mode is not one for that, or
// why it is refused.
func (x *exchange) act(ctx context.Context, m *mode, wanted *authn.Identity, asked *authz.Attributes) (*authn.Identity, error) {
	if !m.fits(wanted, x.user) {
		return nil, nil
	}
	p := petition{exchange: x, mode: m, by: x.user}
	if m.associated {
		keys := make([]string, 0, len(p.by.Extra))
		for key := range p.by.Extra {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		by := *p.by
		by.Extra = map[string][]string{"authentication.kubernetes.io/associated-node-keys": keys}
		p.by = &by
	}
	if m.constrained() {
		on := *asked
		on.User, on.Verb = p.by, "impersonate-on:"+m.name+":"+asked.Verb
		if err := p.ask(ctx, on); err != nil {
			return nil, err
		}
	}
	as := *wanted
	if err := p.name(ctx, &as, wanted); err != nil {
		return nil, err
	}
	if wanted.UID != "" {
		if err := p.ask(ctx, p.attributes(authenticationv1.GroupName, "uids", wanted.UID)); err != nil {
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
		as.Groups = with(as.Groups, authn.GroupUnauthenticated)
	case !slices.Contains(as.Groups, authn.GroupUnauthenticated):
		as.Groups = with(as.Groups, authn.GroupAuthenticated)
	}
	return &as, nil
}

// with returns the groups and one more.
func with(groups []string, group string) []string {
	if slices.Contains(groups, group) {
		return groups
	}
	return append(slices.Clone(groups), group)
}

// petition is the request to act as somebody in one mode.
type petition struct {
	*exchange
	mode *mode
	by   *authn.Identity
}

func (p *petition) attributes(group, resource, name string) authz.Attributes {
	return authz.Attributes{
		User: p.by, Verb: p.mode.verb, Group: group, Version: "v1", Resource: resource, Name: name, ResourceRequest: true,
	}
}

// group is the API group in which users and groups are named.
func (p *petition) group() string {
	if p.mode.constrained() {
		return authenticationv1.GroupName
	}
	return ""
}

func (p *petition) ask(ctx context.Context, a authz.Attributes) error {
	decision, err := p.server.authz.Authorize(ctx, a)
	if decision.Verdict == authz.Allow {
		return nil
	}
	reason := decision.Reason
	switch {
	case err != nil && reason != "":
		reason = err.Error() + ": " + reason
	case err != nil:
		reason = err.Error()
	}
	return forbidden(a, reason)
}

// name asks for the user name, and gives as the groups that come with it.
func (p *petition) name(ctx context.Context, as, wanted *authn.Identity) error {
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
	return p.ask(ctx, a)
}

// many is from how many values on the constrained modes first ask for all of them at once.
const many = 4

func (p *petition) groups(ctx context.Context, groups []string) error {
	a := p.attributes(p.group(), "groups", "")
	if p.mode.constrained() {
		switch {
		case slices.Contains(groups, ""):
			return forbidden(a, "impersonating the empty string group is not allowed")
		case slices.Contains(groups, authn.GroupMasters):
			a.Name = authn.GroupMasters
			return forbidden(a, "impersonating the system:masters group is not allowed")
		case len(groups) >= many:
			a.Name = "*"
			if p.ask(ctx, a) == nil {
				return nil
			}
		}
	}
	for _, group := range groups {
		a.Name = group
		if err := p.ask(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

func (p *petition) extra(ctx context.Context, extra map[string][]string) error {
	a := p.attributes(authenticationv1.GroupName, "userextras", "")
	if p.mode.constrained() {
		if err := checkExtra(extra); err != nil {
			return forbidden(a, err.Error())
		}
		values := 0
		for _, v := range extra {
			values += len(v)
		}
		if len(extra) >= many || values >= many {
			a.Subresource, a.Name = "*", "*"
			if p.ask(ctx, a) == nil {
				return nil
			}
		}
	}
	for key, values := range extra {
		a.Subresource = key
		for _, value := range values {
			a.Name = value
			if err := p.ask(ctx, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkExtra holds extra values to what the constrained modes take.
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
