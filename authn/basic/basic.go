package basic

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"

	"github.com/keelson-dev/keelson/authn"
)

// ErrInvalid: the user does not exist, or the password is wrong.
var ErrInvalid = errors.New("invalid username/password combination")

// Verifier verifies user names and passwords. Implementations are safe for concurrent use.
type Verifier interface {
	// Verify returns the user's identity, or an error if the user does not exist or the password is wrong.
	Verify(ctx context.Context, user, password string) (*authn.Identity, error)
}

// New returns an Authenticator of requests with a user name and a password, verified by v. It ignores an Authorization
// header of another scheme, or one that does not decode.
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

// User is a user with the hash of a password.
type User struct {
	Identity *authn.Identity
	password [sha256.Size]byte
}

// NewUser returns a user.
func NewUser(id *authn.Identity, password string) User {
	return User{Identity: id, password: sha256.Sum256([]byte(password))}
}

// Verify implements Verifier. Its timing reveals neither how much of a guess was right nor whether the user exists.
func (u Users) Verify(_ context.Context, user, password string) (*authn.Identity, error) {
	known, ok := u[user] // for an unknown user, the comparison is with a hash that no password has
	given := sha256.Sum256([]byte(password))
	if subtle.ConstantTimeCompare(known.password[:], given[:]) != 1 || !ok {
		return nil, ErrInvalid
	}
	return known.Identity, nil
}
