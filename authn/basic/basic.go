package basic

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"

	"github.com/keelson-dev/keelson/authn"
)

// ErrInvalid: the request carries a user name and a password that do not belong together, or a
// name that nobody has.
var ErrInvalid = errors.New("invalid username/password combination")

// Verifier judges user names and passwords. Implementations are safe for concurrent use.
type Verifier interface {
	// Verify returns who the user is, or an error when there is no such user or the password
	// is not theirs.
	Verify(ctx context.Context, user, password string) (*authn.Identity, error)
}

// New returns an Authenticator of requests with a user name and a password that v knows. An
// Authorization header of another scheme, or one that does not decode, is none of its
// credentials.
func New(v Verifier) authn.Authenticator {
	return authn.Func(func(r *http.Request) (*authn.Identity, error) {
		user, password, ok := r.BasicAuth()
		if !ok {
			return nil, authn.ErrNoCredentials
		}
		return v.Verify(r.Context(), user, password)
	})
}

// Users are a fixed set of users by name. It implements Verifier.
type Users map[string]User

// User is a user with a password, of which only a hash is kept.
type User struct {
	Identity *authn.Identity
	password [sha256.Size]byte
}

// NewUser returns a user.
func NewUser(id *authn.Identity, password string) User {
	return User{Identity: id, password: sha256.Sum256([]byte(password))}
}

// Verify implements Verifier. The time it takes says nothing about how much of a guess was right,
// nor whether there is such a user.
func (u Users) Verify(_ context.Context, user, password string) (*authn.Identity, error) {
	known, ok := u[user] // without a user, what is compared with is a hash that nothing has
	given := sha256.Sum256([]byte(password))
	if subtle.ConstantTimeCompare(known.password[:], given[:]) != 1 || !ok {
		return nil, ErrInvalid
	}
	return known.Identity, nil
}
