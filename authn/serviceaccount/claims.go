package serviceaccount

import (
	"encoding/json"
	"errors"
	"math"
	"time"

	"github.com/keelson-dev/keelson/authn"
)

// payload is the JSON payload of a token. The order of its fields is upstream's.
type payload struct {
	Audience   audience   `json:"aud,omitempty"`
	Expiry     *date      `json:"exp,omitempty"`
	IssuedAt   *date      `json:"iat,omitempty"`
	Issuer     string     `json:"iss,omitempty"`
	ID         string     `json:"jti,omitempty"`
	Kubernetes kubernetes `json:"kubernetes.io"`
	NotBefore  *date      `json:"nbf,omitempty"`
	Subject    string     `json:"sub,omitempty"`
}

type kubernetes struct {
	Namespace      string `json:"namespace,omitempty"`
	Node           *ref   `json:"node,omitempty"`
	Pod            *ref   `json:"pod,omitempty"`
	Secret         *ref   `json:"secret,omitempty"`
	ServiceAccount ref    `json:"serviceaccount"`
	WarnAfter      *date  `json:"warnafter,omitempty"`
}

type ref struct {
	Name string `json:"name,omitempty"`
	UID  string `json:"uid,omitempty"`
}

// audience is written as a list, but may also be read as a string (RFC 7519, 4.1.3).
type audience []string

func (a *audience) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*a = audience{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(a))
}

// date is in seconds since 1970. Fractions are dropped when read.
type date int64

var errDate = errors.New("date out of range")

func (d *date) UnmarshalJSON(data []byte) error {
	var seconds float64
	if err := json.Unmarshal(data, &seconds); err != nil {
		return err
	}
	if math.Abs(seconds) >= 1<<60 { // time.Unix would overflow
		return errDate
	}
	*d = date(seconds)
	return nil
}

func newDate(t time.Time) *date {
	if t.IsZero() {
		return nil
	}
	d := date(t.Unix())
	return &d
}

func (d *date) time() time.Time {
	if d == nil {
		return time.Time{}
	}
	return time.Unix(int64(*d), 0)
}

func newRef(r *authn.Ref) *ref {
	if r == nil {
		return nil
	}
	return &ref{Name: r.Name, UID: r.UID}
}

// userName is the name of a service account as a user.
func userName(namespace, name string) string {
	return "system:serviceaccount:" + namespace + ":" + name
}

// identity returns the user that such a token stands for.
func (p *payload) identity(audiences []string) *authn.Identity {
	k := &p.Kubernetes
	id := &authn.Identity{
		Name: userName(k.Namespace, k.ServiceAccount.Name), UID: k.ServiceAccount.UID,
		Groups: []string{authn.GroupServiceAccounts, authn.GroupServiceAccounts + ":" + k.Namespace},
		Extra:  map[string][]string{}, Audiences: audiences,
	}
	add := func(key, value string) { id.Extra[key] = []string{value} }
	if p.ID != "" {
		add(authn.CredentialID, "JTI="+p.ID)
	}
	if k.Pod != nil && k.Pod.Name != "" && k.Pod.UID != "" {
		add(PodName, k.Pod.Name)
		add(PodUID, k.Pod.UID)
	}
	if k.Node != nil && k.Node.Name != "" {
		add(NodeName, k.Node.Name)
		if k.Node.UID != "" {
			add(NodeUID, k.Node.UID)
		}
	}
	return id
}
