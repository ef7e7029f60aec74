// The recipe for EF Core of docs/clients.md: see tests/drivers/recipes.pl for what it reads and prints.
using Microsoft.EntityFrameworkCore;
using Npgsql;

static string Env(string name) => Environment.GetEnvironmentVariable(name)!;

await using var source = NpgsqlDataSource.Create($"Host=127.0.0.1:{Env("PORT1")},127.0.0.1:{Env("PORT2")};Target Session Attributes=read-write;Database={Env("DB")};Username={Env("DBUSER")};SSL Mode=Disable;GSS Encryption Mode=Disable");
await Task.WhenAll(Enumerable.Range(0, int.Parse(Env("POOL"))).Select(async _ =>
{
    await using var conn = await source.OpenConnectionAsync();
    await Task.Delay(1000);
}));
var options = new DbContextOptionsBuilder().UseNpgsql(source, o => o.ExecutionStrategy(d => new LockstepStrategy(d, source))).Options;
for (string? line; (line = Console.ReadLine()) != null;)
{
    try
    {
        await using var context = new DbContext(options);
        var result = await LockstepContext.Run(context, source, async () =>
        {
            foreach (var step in line.Split(";;"))
            {
                if (step == "@")
                {
                    Console.WriteLine("at");
                    Console.ReadLine();
                }
                else await context.Database.ExecuteSqlRawAsync(step);
            }
            return "its result";
        });
        Console.WriteLine("done " + result);
    }
    catch (Exception e)
    {
        Console.WriteLine("failed " + e.Message.Replace("\n", " "));
    }
}
