// The recipe for Npgsql of docs/clients.md: see tests/drivers/recipes.pl for what it reads and prints.
using Npgsql;

static string Env(string name) => Environment.GetEnvironmentVariable(name)!;

await using var source = NpgsqlDataSource.Create($"Host=127.0.0.1:{Env("PORT1")},127.0.0.1:{Env("PORT2")};Target Session Attributes=read-write;Database={Env("DB")};Username={Env("DBUSER")};SSL Mode=Disable;GSS Encryption Mode=Disable");
await Task.WhenAll(Enumerable.Range(0, int.Parse(Env("POOL"))).Select(async _ =>
{
    await using var conn = await source.OpenConnectionAsync();
    await Task.Delay(1000);
}));
for (string? line; (line = Console.ReadLine()) != null;)
{
    try
    {
        var result = await Lockstep.Run(source, async conn =>
        {
            foreach (var step in line.Split(";;"))
            {
                if (step == "@")
                {
                    Console.WriteLine("at");
                    Console.ReadLine();
                }
                else await new NpgsqlCommand(step, conn).ExecuteNonQueryAsync();
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
