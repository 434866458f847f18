// Package admission judges and completes objects before they are stored: it holds the contract
// of a [Plugin], the errors it refuses with, and the [Chain] that runs several.
//
// An API server that has authenticated and authorized a request that writes runs every Mutator
// in order on the defaulted object, validates it, and then runs every Validator in order on
// what will be stored. The first failure ends the request. Each plugin upstream has by default
// is a package of its own below, under upstream's name and with upstream's words; [Ordered] puts
// plugins in upstream's order. Package admissiontest tests a plugin without a server.
//
// A plugin for one purpose is a function and a name:
//
//	admission.ValidatorFunc("NoLatest", func(ctx context.Context, r *admission.Request) error { ... }, admission.Create)
//
// # Errors
//
// A plugin refuses with an [*Error], made by [Forbidden] in most cases, whose text is what the
// client reads. Any other error is a failure of the server and fails the request as well.
//
// # Concurrency
//
// Plugins are used by many requests at once. A Request belongs to one request.
package admission
